-- The judges that it can ask: names, and `entry:*` where any model of an entry will do. Null: it said nothing of them.
alter table workers add column judges jsonb;
