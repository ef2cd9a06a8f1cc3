//! Renders Markdown of judges and agents as safe HTML. Raw HTML becomes text, images become links, and links are restricted to http, https
//! and mailto.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use uuid::Uuid;

use super::links::message_link;

/// HTML limit of a text without its own page, bytes.
const MAX_HTML_BYTES: usize = 32 << 10;
/// Minimum prefix tried, bytes. If its HTML is too long, shorter prefixes aren't tried.
const MIN_PREFIX_BYTES: usize = 64;

/// A prefix of a text, as safe HTML.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// At most the requested number of bytes.
    pub(super) html: String,
    /// Number of bytes of the text that are shown.
    pub(super) taken: usize,
    of: usize,
}

impl Cut {
    pub(super) fn is_complete(&self) -> bool {
        self.taken == self.of
    }
}

/// Renders a text as safe HTML, truncated to the limit. With `about`, each "message 9" links to that message of the session.
pub(super) fn render(text: &str, about: Option<Uuid>) -> String {
    let mut cut = cut_to(text, MAX_HTML_BYTES, about);
    if !cut.is_complete() {
        cut.html
            .push_str("<p class=\"dim\">The text is longer. Read all of it through the API.</p>");
    }
    cut.html
}

/// Renders the longest prefix with at most `most` bytes of HTML. The limit applies to the HTML, because a few characters may expand to
/// megabytes (tables).
pub(super) fn within(text: &str, most: usize) -> Cut {
    cut_to(text, most, None)
}

fn cut_to(text: &str, most: usize, about: Option<Uuid>) -> Cut {
    let mut end = text.len().min(most);
    while end >= MIN_PREFIX_BYTES || end == text.len() {
        let part = prefix(text, end);
        if let Some(html) = rendered(part, most, about) {
            return Cut {
                html,
                taken: part.len(),
                of: text.len(),
            };
        }
        end = end.min(text.len().saturating_sub(1)) / 2;
        if end < MIN_PREFIX_BYTES {
            break;
        }
    }
    let frame = "<pre></pre>".len();
    let mut cut = plain(text, most.saturating_sub(frame));
    cut.html = format!("<pre>{}</pre>", cut.html);
    cut
}

/// The first `end` bytes of a text, cut at a line end if one is near.
fn prefix(text: &str, end: usize) -> &str {
    let part = text
        .get(..text.floor_char_boundary(end))
        .unwrap_or_default();
    if part.len() == text.len() {
        return part;
    }
    match part.rfind('\n') {
        Some(line) if line >= part.len() / 2 => part.get(..line).unwrap_or(part),
        Some(_) | None => part,
    }
}

pub(super) fn render_complete(text: &str, most: usize) -> Option<String> {
    rendered(text, most, None)
}

fn rendered(text: &str, most: usize, about: Option<Uuid>) -> Option<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut within_link = false;
    let events = Parser::new_ext(text, options).map(|event| match (event, about) {
        (Event::Text(text), Some(session)) if !within_link => {
            Event::InlineHtml(with_messages(&text, session).into())
        }
        (event, _) => {
            if matches!(event, Event::Start(Tag::Link { .. } | Tag::Image { .. })) {
                within_link = true;
            } else if matches!(event, Event::End(TagEnd::Link | TagEnd::Image)) {
                within_link = false;
            }
            harmless(event)
        }
    });
    let mut page = Bounded {
        text: String::new(),
        most,
    };
    html::write_html_fmt(&mut page, events).ok()?;
    Some(page.text)
}

/// Renders a text with links for the number after "message" and the numbers after "messages".
fn with_messages(text: &str, session: Uuid) -> String {
    let (mut html, mut rest) = (String::new(), text);
    let (mut one, mut many) = (false, false);
    while let Some(first) = rest.chars().next() {
        let kind = |c: char| (c.is_ascii_digit(), c.is_alphanumeric());
        let end = rest.find(|c: char| kind(c) != kind(first));
        let (token, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        let number = token.parse().ok().filter(|number| *number > 0_usize);
        if let Some(number) = number.filter(|_| one || many) {
            let to = message_link(session, number);
            html.push_str(&format!("<a href=\"{to}\">{token}</a>"));
            one = false;
            continue;
        }
        html.push_str(&escaped(token));
        match token.to_ascii_lowercase().as_str() {
            "message" => one = true,
            "messages" => many = true,
            "and" | "or" | "to" | "through" => one = false,
            between if between.chars().all(|c| " ,#-–&".contains(c)) => {}
            _ => (one, many) = (false, false),
        }
    }
    html
}

/// HTML writer that stops at its limit.
struct Bounded {
    text: String,
    most: usize,
}

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        if self.text.len() + more.len() > self.most {
            return Err(std::fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// Escapes the longest prefix that fits into `most` bytes, without Markdown.
pub(super) fn plain(text: &str, most: usize) -> Cut {
    let mut html = String::new();
    let mut taken = 0;
    let mut character = [0_u8; 4];
    for c in text.chars() {
        let safe = escaped(c.encode_utf8(&mut character));
        if html.len() + safe.len() > most {
            break;
        }
        html.push_str(&safe);
        taken += c.len_utf8();
    }
    Cut {
        html,
        taken,
        of: text.len(),
    }
}

fn harmless(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { dest_url, .. }) => opening(&dest_url),
        // Images become links with the alt text, because browsers must not load them from other sites.
        Event::Start(Tag::Image { dest_url, .. }) => opening(&dest_url),
        Event::End(TagEnd::Link | TagEnd::Image) => Event::InlineHtml("</a>".into()),
        same @ (Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule
        | Event::TaskListMarker(_)) => same,
    }
}

/// Opens a link without referrer. A link with a forbidden scheme has no target.
fn opening<'a>(to: &CowStr<'_>) -> Event<'a> {
    let lower = to.trim_start().to_ascii_lowercase();
    let known = ["http://", "https://", "mailto:"];
    let tag = if known.iter().any(|scheme| lower.starts_with(scheme)) {
        format!(
            "<a href=\"{}\" rel=\"noopener noreferrer nofollow\">",
            escaped(to)
        )
    } else {
        "<a>".to_owned()
    };
    Event::InlineHtml(tag.into())
}

pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_markdown() {
        let page = render("**a** `b`\n\n- c\n\n| d | e |\n| - | - |\n| 1 | 2 |", None);
        for part in [
            "<strong>a</strong>",
            "<code>b</code>",
            "<li>c</li>",
            "<td>1</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn html_is_safe() {
        for hostile in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div onclick='x'>\nblock\n</div>",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>1</script>)",
            "[x](\u{1}javascript:alert(1))",
            "![p](https://evil.example/p.png)",
            "<javascript:alert(1)>",
            "[x](https://e.example/\"onmouseover=\"alert(1))",
            "```<script>\n</script>\n```",
            "| <script>x</script> |\n| - |\n| <b onclick=x>y</b> |",
        ] {
            let page = render(hostile, Some(Uuid::nil())).to_ascii_lowercase();
            for bad in [
                "<script",
                "<img",
                "<div",
                "<b ",
                "href=\"javascript",
                "href=\"data",
                "\" onmouseover",
                "\"onmouseover",
            ] {
                assert!(!page.contains(bad), "{hostile} gives {page}");
            }
        }
        let link = render("[x](https://ok.example/?a=1&b=2)", None);
        assert!(
            link.contains("<a href=\"https://ok.example/?a=1&amp;b=2\" rel="),
            "{link}"
        );
    }

    #[test]
    fn message_numbers_become_links() {
        let session = Uuid::nil();
        for (text, linked) in [
            ("In message 9 it guessed; 3 pods fell.", vec![9]),
            ("Messages 3, 4 and 57 (message #60)", vec![3, 4, 57, 60]),
            ("messages 2-5 to 7 show 8", vec![2, 5, 7]),
            ("message 9, 5 minutes later, and 6 others", vec![9]),
            ("the message cost 9; message 0, `message 4`", vec![]),
            ("[message 4](https://a.example) *message 5*", vec![5]),
            ("a message to 3 people", vec![]),
        ] {
            let page = render(text, Some(session));
            let links: Vec<String> = linked.iter().map(|no| message_link(session, *no)).collect();
            assert_eq!(page.matches("#message-").count(), links.len(), "{page}");
            for (to, no) in links.iter().zip(linked) {
                assert!(
                    page.contains(&format!("<a href=\"{to}\">{no}</a>")),
                    "{page}"
                );
            }
        }
        assert!(!render("message 9", None).contains("<a"));
    }

    #[test]
    fn output_length_is_bounded() {
        let table = format!(
            "|{}\n|{}\n{}",
            "a|".repeat(200),
            "-|".repeat(200),
            "|a|\n".repeat(2_000)
        );
        for text in [
            "*a* b\n".repeat(60_000),
            table,
            ">".repeat(10_000),
            "'".repeat(50_000),
            "* a\n".repeat(9_000),
            "ä".repeat(50_000),
            "# a\n".repeat(9_000),
        ] {
            for most in [100, 2_000, 16_000] {
                let cut = within(&text, most);
                assert!(cut.html.len() <= most, "{} of {most}", cut.html.len());
                assert!(cut.taken > 0 && !cut.is_complete());
                let cut = plain(&text, most);
                assert!(cut.html.len() <= most && cut.taken > 0);
            }
            assert!(render(&text, None).contains("The text is longer"));
        }
        let cut = within("**a**", 100);
        assert!(cut.is_complete());
        assert_eq!(cut.html, "<p><strong>a</strong></p>\n");
    }
}
