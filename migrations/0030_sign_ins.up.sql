-- Browsers that somebody signed in with a token. The id in their cookie is kept as its hash; `token_hash` is of that id and the token
-- together, so that a token that is changed or removed ends what it was signed in with, and no row tells a token.
create table sign_ins (
    id_hash varchar(64) primary key,
    token_name text not null,
    token_hash varchar(64) not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index sign_ins_expire on sign_ins (expires_at);
