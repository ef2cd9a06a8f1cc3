drop table sign_ins;
