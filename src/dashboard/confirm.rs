//! Confirmation page before an action that costs money or stops others' work. `keys.js` adds the `sure` field
//! to a form after the browser's dialog. Without JavaScript the field is missing and the server sends this page.

use askama::Template;

use super::form::Form;
use super::frame::Frame;
use super::page::{Page, html};
use super::state::PageState;

pub(super) struct Confirmation {
    pub(super) title: String,
    pub(super) consequence: String,
    pub(super) button: &'static str,
    /// Whether the action stops or ends something.
    pub(super) stops: bool,
    pub(super) part: &'static str,
}

impl Confirmation {
    /// Label of the cancel button. Next to "Cancel the job" a second "Cancel" would be ambiguous.
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

/// Whether the user has confirmed. htmx requests always count as confirmed, because `keys.js` opens a dialog before it sends them.
pub(super) fn is_sure(form: &Form) -> bool {
    form.user.fragment || form.ticked("sure")
}

/// Renders the confirmation page, which sends the same form to `action`.
pub(super) async fn show(
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
    fn confirmation_keeps_form_fields_and_back_link() {
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
