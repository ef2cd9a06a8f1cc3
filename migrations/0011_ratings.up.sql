-- What people say of an investigation. One of a person for a score, and one for the session as such; a new one replaces it.
create table human_ratings (
    rating_id uuid primary key,
    session_id uuid not null references alert_sessions (session_id) on delete cascade,
    -- Null: it is about the session, whichever score it has.
    score_id uuid references session_scores (score_id) on delete cascade,
    -- total (0-100, in total), rating (one of five words) or quality (one of three, in word).
    form text not null,
    total bigint,
    word text,
    rated_by text not null,
    comment text,
    rated_at timestamptz not null,
    constraint human_ratings_form check (form in ('total', 'rating', 'quality')),
    constraint human_ratings_given check (
        (form = 'total') = (total is not null) and (form = 'total') = (word is null)
    ),
    constraint human_ratings_total check (total is null or total between 0 and 100)
);
create unique index human_ratings_of_score on human_ratings (score_id, rated_by) where score_id is not null;
create unique index human_ratings_of_session on human_ratings (session_id, rated_by) where score_id is null;
create index human_ratings_listed on human_ratings (session_id, rated_at);
