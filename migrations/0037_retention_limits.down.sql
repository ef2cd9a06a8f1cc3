drop table retention_limits;
