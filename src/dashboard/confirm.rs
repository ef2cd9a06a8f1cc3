//! The question before what costs money or stops others' work, asked by the server where the browser couldn't ask it: without
//! JavaScript a form arrives without the word that `live.js` adds once its person has said yes.

use askama::Template;

use super::form::Form;
use super::frame::Frame;
use super::page::{Page, html};
use super::state::PageState;

/// What is asked.
pub(super) struct Confirmation {
    pub(super) title: String,
    /// What follows from a yes.
    pub(super) consequence: String,
    /// The yes.
    pub(super) button: &'static str,
    /// Whether it stops or ends something.
    pub(super) stops: bool,
    /// The part of the site where it is asked.
    pub(super) part: &'static str,
}

impl Confirmation {
    /// The no. Beside "Cancel the job" another "Cancel" would read like a yes.
    fn no(&self) -> &'static str {
        match self.button.starts_with("Cancel") {
            true => "Back",
            false => "Cancel",
        }
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    frame: Frame,
    confirmation: Confirmation,
    action: String,
    fields: Vec<(String, String)>,
    back: String,
}

/// Whether the person has said yes, or is asked by a script: a piece is asked for by htmx, whose page asks by itself.
pub(super) fn is_sure(form: &Form) -> bool {
    form.user.piece || form.ticked("sure")
}

/// Asks; a yes sends the same form to `action`.
pub(super) async fn ask(
    state: &PageState,
    form: &Form,
    action: String,
    confirmation: Confirmation,
) -> Page {
    let title = confirmation.title.clone();
    html(&ConfirmPage {
        frame: Frame::load(state, form.user.clone(), confirmation.part, title).await,
        fields: form.pairs().cloned().collect(),
        back: form.back().unwrap_or("/").to_owned(),
        confirmation,
        action,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_carries_what_was_asked_and_a_way_back() {
        let page = ConfirmPage {
            frame: Frame::bare(),
            confirmation: Confirmation {
                title: "Cancel <b>this job</b>?".to_owned(),
                consequence: "It ends.".to_owned(),
                button: "Cancel the job",
                stops: true,
                part: "Queue",
            },
            action: "/jobs/1/cancel".to_owned(),
            fields: vec![("form_token".to_owned(), "\"><script>".to_owned())],
            back: "/queue".to_owned(),
        };
        let text = page.render().unwrap();
        for part in [
            "action=\"/jobs/1/cancel\"",
            "name=\"sure\"",
            "name=\"form_token\"",
            "href=\"/queue\">Back</a>",
            "It ends.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains("<b>this job") && !text.contains("\"><script>"),
            "{text}"
        );
    }
}
