drop table installation;
