drop table session_import_items;
drop table session_imports;
