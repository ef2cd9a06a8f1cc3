//! Suites: upload with an invalid row, the corrected file, and its report.

use super::*;
use crate::support::judge_server::{Call, Reply};

const HEAD: &str = "id,prompt,generated_kql,expected_kql,generated_results,expected_results\n";
const RIGHT: [&str; 4] = [
    "same,How many?,T | count,T | count,\"[{\"\"n\"\":1}]\",\"[{\"\"n\"\":1}]\"\n",
    "other,Which?,T | take 5,U | where a == 1 | take 5,\"[{\"\"n\"\":1}]\",\"[{\"\"n\"\":2}]\"\n",
    "declined,Declined?,T | take 5,T | take 6,\"[{\"\"n\"\":1}]\",\"[{\"\"n\"\":1}]\"\n",
    "late,Late?,T | take 5,T | take 6,\"[{\"\"n\"\":1}]\",\"[{\"\"n\"\":1}]\"\n",
];

/// Judge that declines one question, delays another, and grades the rest.
pub(super) fn judge(call: &Call) -> Reply {
    let prompt = call.prompt();
    let grade = Reply::Content(json!({"reasoning": "It asks for more.", "score": 1.0}).to_string());
    if prompt.contains("Declined?") {
        Reply::Refusal
    } else if prompt.contains("Late?") {
        Reply::Held(Box::new(grade))
    } else {
        grade
    }
}

impl<Of> Site<Of> {
    pub(super) async fn upload(&self, name: &str, rows: &[&str]) {
        let file = self.dir.path().join(name);
        std::fs::write(&file, format!("{HEAD}{}", rows.concat())).unwrap();
        let field = self.find("#upload-file").await;
        field.send_keys(file.display().to_string()).await.unwrap();
        self.submit("form[action='/batches/upload'] button").await;
    }
}

/// Suite with no expected query in its second row.
pub(super) const WRONG: [&str; 2] = [RIGHT[0], "other,Which?,T | take 5,,,\n"];

/// Valid suite of four rows.
pub(super) const WHOLE: &[&str] = &RIGHT;

#[tokio::test]
async fn suite_is_rejected_by_row_then_accepted_and_reported() {
    let Some(site) = Site::over(judged_by(judge)).await else {
        return;
    };
    site.open("/batches").await;
    site.upload("wrong.csv", &WRONG).await;
    site.shows("[role=alert]", "No item was queued").await;
    site.shows("tbody tr td:nth-child(1)", "3").await;
    site.shows("tbody tr td:nth-child(2)", "expected_kql").await;
    site.shows("tbody tr td:nth-child(3)", "is missing").await;
    let listed = site.api.get("/api/v1/batches").await.expect(200);
    assert_eq!(listed["items"], json!([]), "nothing was queued");

    site.upload("right.csv", WHOLE).await;
    site.shows(".headline", "3 of 4").await;
    site.shows(".headline", "INCOMPLETE").await;
    site.run("window.gavelSame = true").await;
    site.gavel.judge.release();
    site.shows(".headline", "4 of 4").await;
    assert_eq!(
        site.run("return window.gavelSame").await,
        true,
        "the page was never loaded again"
    );
    let order =
        "return Array.from(document.querySelectorAll('.sectionhead h2')).map(h => h.textContent)";
    assert_eq!(
        site.run(order).await,
        json!(["Errors (missed)", "Without a score", "Success"])
    );
    for (class, sign, head) in [
        ("bad", "✗", "T | take 5"),
        ("warn", "!", "T | take 5"),
        ("ok", "✓", "T | count"),
    ] {
        let item = format!("li.item.{class}");
        site.shows(&item, sign).await;
        site.shows(&item, head).await;
    }

    site.click(".reports a[href*='report.xlsx']").await;
    let report = eventually(PATIENCE, "the report is there", || async {
        let found = std::fs::read_dir(site.downloads()).ok()?;
        found
            .filter_map(|file| Some(file.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "xlsx"))
            // The browser reserves the name with an empty file.
            .find(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0))
    })
    .await;
    let report = std::fs::read(report).unwrap();
    assert_eq!(&report[..2], b"PK", "a workbook is a ZIP file");
    assert_eq!(site.complaints().await, Vec::<String>::new());
    site.close().await.end().await;
}
