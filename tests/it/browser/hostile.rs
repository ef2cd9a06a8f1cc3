//! Markup in the texts of agents, alerts and judges must be shown as text.

use super::*;
use crate::support::client::id_of;
use crate::support::judge_server::{Call, Reply, good_reply};

const SCRIPT: &str = "<script>alert(1)</script>";
const MARKDOWN: &str = "<img src=x onerror=alert(2)> <b onclick=alert(3)>bold</b> [here](javascript:alert(4)) \
    ![picture](http://127.0.0.1:9/pixel.png) <iframe src=\"javascript:alert(5)\"></iframe> <svg onload=alert(6)></svg>";

fn session() -> Value {
    json!({
        "status": "completed", "alert_type": SCRIPT, "agent": SCRIPT, "author": SCRIPT, "tags": [SCRIPT, "\" onmouseover=\"alert(7)"],
        "alert_data": {"text": MARKDOWN, SCRIPT: SCRIPT}, "final_analysis": MARKDOWN, "tools": [SCRIPT],
        "conversation": [{"role": "assistant", "content": MARKDOWN}, {"role": "tool", "tool_name": SCRIPT, "content": MARKDOWN}],
        "completed_at": chrono::Utc::now(),
    })
}

fn judge(call: &Call) -> Reply {
    let mut reply = good_reply(66, &call.body);
    reply["score_reasoning"] = json!(MARKDOWN);
    reply["missing_tools"] = json!([{"tool_name": SCRIPT, "rationale": MARKDOWN}]);
    reply["alternative_approaches"] =
        json!([{"name": SCRIPT, "description": MARKDOWN, "steps": [MARKDOWN]}]);
    Reply::Content(reply.to_string())
}

#[tokio::test]
async fn agent_and_judge_markup_runs_no_script_and_loads_no_url() {
    let Some(site) = Site::over(judged_by(judge)).await else {
        return;
    };
    let (id, _) = site.api.enqueue(session()).await;
    let score = id_of(&site.api.scored(id).await["score_id"]);
    let rating = json!({"rating": "weak", "by": SCRIPT, "comment": MARKDOWN});
    let path = format!("/api/v1/scores/{score}/ratings");
    site.api.post_json(&path, rating).await.expect(201);
    let item =
        json!({"id": SCRIPT, "prompt": SCRIPT, "generated_kql": MARKDOWN, "expected_kql": SCRIPT});
    let suite = json!({"kind": "query", "name": SCRIPT, "items": [item]});
    let made = site.api.post_json("/api/v1/batches", suite).await;
    let batch = id_of(&made.expect(202)["batch_id"]);
    for path in [
        "/".to_owned(),
        "/sessions".to_owned(),
        format!("/sessions/{id}"),
        format!("/sessions/{id}/technical"),
        format!("/sessions/{id}/score"),
        format!("/scores/{score}"),
        format!("/scores/{score}/calls"),
        "/insights".to_owned(),
        "/queue".to_owned(),
        "/batches".to_owned(),
        format!("/batches/{batch}"),
        format!("/batches/{batch}/items/0"),
    ] {
        // An open alert would make the driver reject the next command.
        site.open(&path).await;
        assert_eq!(site.run(FOREIGN).await, json!([]), "{path}");
        assert_eq!(site.complaints().await, Vec::<String>::new(), "{path}");
    }
    site.open(&format!("/sessions/{id}")).await;
    site.shows("h1", SCRIPT).await;
    site.close().await.end().await;
}

/// Foreign content of a page: scripts, frames, images, handlers, script links, and external loads.
const FOREIGN: &str = "const found = []; \
    document.querySelectorAll('script, iframe, img, object, embed, base, style').forEach(e => { \
        if (!(e.tagName === 'SCRIPT' && e.src.startsWith(location.origin + '/assets/'))) found.push(e.outerHTML) }); \
    document.querySelectorAll('*').forEach(e => Array.from(e.attributes).forEach(a => { \
        if (a.name.startsWith('on') || (['href', 'src', 'action'].includes(a.name) && !/^(\\/|https?:|mailto:|#)/.test(a.value))) \
            found.push(e.tagName + ' ' + a.name + '=' + a.value) })); \
    performance.getEntriesByType('resource').forEach(r => { if (!r.name.startsWith(location.origin)) found.push(r.name) }); \
    return found";
