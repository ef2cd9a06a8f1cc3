drop table leaders;
alter table workers drop column lease_s;
