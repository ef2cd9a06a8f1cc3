//! Ratings from a file, criteria beside each other, and agreement, from the command line.

use serde_json::{Value, json};
use uuid::Uuid;

use super::embedded::{place_with_judge, session};
use super::Place;

/// A place with one session that was scored under two versions of the criteria; the session, its score, the other version.
fn scored_twice() -> (Place, Uuid, String, String) {
    let (place, _simulator) = place_with_judge();
    let second = include_str!("../../../config/criteria/session_outcome_first.yaml");
    place.write("second.yaml", second);
    let id = Uuid::now_v7();
    place.write("session.json", &session(id, "completed"));
    let scored = place
        .run(&["score", "session.json", "--json"])
        .ends(0)
        .json();
    let score = text(&scored, "/items/0/score/score_id");
    let added = place.run(&["criteria", "add", "second.yaml"]).ends(0);
    let hash = added.out.trim().to_owned();
    let args = ["score", "--criteria-hash", &hash, &id.to_string()];
    place.run(&args).ends(0);
    (place, id, score, hash)
}

fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found
        .unwrap_or_else(|| panic!("{pointer} in {value:#}"))
        .to_owned()
}

#[test]
fn criteria_are_compared_and_their_texts_too() {
    let (place, id, _, hash) = scored_twice();
    let short = &hash[..10];
    let compared = place
        .run(&["criteria", "compare", "current", short])
        .ends(0);
    compared
        .prints(&hash)
        .prints("1 sessions under both, 0 under a alone, 0 under b alone")
        .prints("near perfect")
        .says("simulated judge")
        .says("only 1 sessions");
    let args = [
        "criteria", "compare", short, "current", "--json", "--movers", "1",
    ];
    let json = place.run(&args).ends(0).json();
    assert_eq!((&json["n"], &json["a"]), (&json!(1), &json!(hash)));
    if json["movers"] != json!([]) {
        assert_eq!(json["movers"][0]["session_id"], json!(id));
    }
    let diff = place.run(&["criteria", "diff", "current", short]).ends(0);
    diff.prints(" judge_prompt\n+++ ").prints("\n@@ ");
    place
        .run(&["criteria", "diff", "current", "current"])
        .ends(2)
        .says("same version");
    place
        .run(&["criteria", "compare", "current", "00000000"])
        .ends(2)
        .says("not stored");
    place
        .run(&["criteria", "list"])
        .ends(0)
        .prints("first score");
    let first = include_str!("../../../config/scoring_config.yaml");
    place.write("third.yaml", &first.replace("# Your task", "# What to do"));
    let third = place.run(&["criteria", "add", "third.yaml"]).ends(0).out;
    let args = ["criteria", "compare", "current", third.trim()];
    place
        .run(&args)
        .ends(4)
        .says("no session has a score under both");
}
