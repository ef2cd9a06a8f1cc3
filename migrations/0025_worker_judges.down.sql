alter table workers drop column judges;
