-- What people call a version of the criteria, and what they note about it.
create table criteria_names (
    criteria_hash varchar(64) primary key references scoring_criteria_definitions (criteria_hash) on delete cascade,
    name text,
    note text,
    named_by text not null,
    named_at timestamptz not null
);
-- Which version people made current, the newest row of a kind. Without a hash: that of the servers' files, as before the first row.
create table criteria_choices (
    choice_id uuid primary key,
    kind text not null,
    criteria_hash varchar(64) references scoring_criteria_definitions (criteria_hash),
    chosen_by text not null,
    chosen_at timestamptz not null
);
create index criteria_choices_newest on criteria_choices (kind, chosen_at, choice_id);
