//! Rating files from the command line.

use serde_json::json;
use uuid::Uuid;

use super::Sandbox;
use super::embedded::{place_with_judge, session};

fn place_with_score() -> (Sandbox, Uuid, String) {
    let (place, _simulator) = place_with_judge();
    let id = Uuid::now_v7();
    place.write("session.json", &session(id, "completed"));
    let scored = place.run(&["score", "session.json", "--json"]).ends(0);
    let score = scored.json()["items"][0]["score"]["score_id"].clone();
    (place, id, score.as_str().unwrap().to_owned())
}

/// Asserts that a file of ratings is rejected with these errors and stored not even in part.
#[track_caller]
fn faults(place: &Sandbox, ratings: &str, expected: &[&str]) {
    place.write("faulty.csv", ratings);
    let mut run = place.run(&["ratings", "import", "faulty.csv"]);
    run = run.ends(2).says("no rating is stored");
    for part in expected {
        run = run.says(part);
    }
}

#[test]
fn rating_file_is_checked_completely_and_stored_once() {
    let (place, id, score) = place_with_score();
    let ratings = format!(
        "session_id,score_id,total,quality,at\n{id},{score},1,,\n{id},,101,,\n,,1,,\n{id},,,good,\n{id},,1,,soon\nnone,,1,,\n"
    );
    let told = [
        "faulty.csv: row 2: holds both session_id and score_id",
        "row 3, column total: is 101; 0-100 is expected",
        "row 4: has no session_id or score_id",
        "row 5, column quality: \"good\" is unknown",
        "row 6, column at: \"soon\" is not a time",
        "row 7, column session_id: is \"none\"",
    ];
    faults(&place, &ratings, &told);
    let stranger = Uuid::now_v7();
    let ratings = format!("session_id,total\n{id},5\n{stranger},6\n");
    let told = ["row 3, column session_id", "not found"];
    faults(&place, &ratings, &told);
    let ratings = format!("session_id,total\n{id},101\n{stranger},6\n");
    let told = [
        "row 2, column total: is 101",
        "row 3, column session_id: session",
    ];
    faults(&place, &ratings, &told);
    // Contradictory rows are ambiguous.
    let ratings = format!(
        "session_id,score_id,total,by\n{id},,5,ann\n{id},,5,bob\n,{score},7,ann\n{id},,9, ann \n{id},,1,\n,{score},8,ann\n{id},,2,\n"
    );
    let told = [
        "row 5, column session_id: rates this session for \"ann\" again, as row 2 does: keep one",
        "row 7, column score_id: rates this score for \"ann\" again, as row 4 does",
        "row 8, column session_id: rates this session for the same rater again, as row 6 does",
    ];
    faults(&place, &ratings, &told);
    let ratings = format!("session_id,stars\n{id},5\n");
    let told = [
        "column stars: is no field; there are [session_id, score_id, total, rating, quality, by, comment, at]",
    ];
    faults(&place, &ratings, &told);
    // Invalid times must be found before the first row is stored.
    let ratings = format!(
        "session_id,total,at\n{id},5,\n{id},6,9999-01-01T00:00:00Z\n{id},7,0000-01-01T00:00:00Z\n"
    );
    let told = [
        "row 3, column at: is in the future",
        "row 4, column at: \"0000-01-01T00:00:00Z\" is outside of the years 1 to 9999",
    ];
    faults(&place, &ratings, &told);
    let listed = place.run(&["ratings", "list", &id.to_string(), "--json"]);
    assert_eq!(
        listed.ends(0).json()["items"],
        json!([]),
        "one fault, and no rating is stored"
    );

    let good = format!(
        "session_id,score_id,total,rating,quality,by,comment,at\n{id},,,,accurate,ann,\"good, but slow\",2026-01-02T03:04:05Z\n,{score},55,,,bob,,\n"
    );
    place.write("good.csv", &good);
    let dry = ["ratings", "import", "good.csv", "--dry-run"];
    place
        .run(&dry)
        .ends(0)
        .prints("2 ratings, all valid; not stored");
    let import = ["ratings", "import", "good.csv"];
    place
        .run(&import)
        .ends(0)
        .prints("2 new, 0 in the place of earlier ones");
    place
        .run(&import)
        .ends(0)
        .prints("0 new, 2 in the place of earlier ones");
    let listed = place.run(&["ratings", "list", &id.to_string()]).ends(0);
    listed
        .prints("good, but slow")
        .prints("55")
        .prints("accurate");
    let of_score = place.run(&["ratings", "list", "--score", &score, "--json"]);
    let of_score = of_score.ends(0).json();
    assert_eq!(of_score["items"].as_array().unwrap().len(), 1);
    assert_eq!(of_score["items"][0]["by"], "bob");
    place.write("empty.csv", "session_id,total\n");
    place.run(&["ratings", "import", "empty.csv"]).ends(4);
}
