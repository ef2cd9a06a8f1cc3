//! Prompt templates: text with `{{PLACEHOLDER}}`s. Filled in one pass, so that inserted text isn't expanded.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Splits a template into text and placeholders. A placeholder is `{{NAME}}` with a name of `[A-Z][A-Z0-9_]*`; any
/// other `{{`, such as `{{ name }}` or `{{{`, is text.
pub(super) fn segments(template: &str) -> Vec<Segment<'_>> {
    let mut found = Vec::new();
    let mut text_from = 0;
    let mut at = 0;
    while let Some(offset) = template[at..].find("{{") {
        let open = at + offset;
        match placeholder_at(&template[open..]) {
            Some(name) => {
                if text_from < open {
                    found.push(Segment::Text(&template[text_from..open]));
                }
                found.push(Segment::Placeholder(name));
                at = open + name.len() + 4;
                text_from = at;
            }
            // Skips one brace, so that `{{{NAME}}}` is a placeholder in braces.
            None => at = open + 1,
        }
    }
    if text_from < template.len() {
        found.push(Segment::Text(&template[text_from..]));
    }
    found
}

fn placeholder_at(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("{{")?;
    let name = &inner[..inner.find("}}")?];
    let well_formed = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    well_formed.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::Segment::{Placeholder, Text};
    use super::*;

    #[test]
    fn only_upper_case_names_in_double_braces_are_placeholders() {
        let cases: &[(&str, &[Segment<'_>])] = &[
            ("", &[]),
            ("plain", &[Text("plain")]),
            ("{{A}}", &[Placeholder("A")]),
            (
                "a {{ALERT_DATA}} b{{X2}}",
                &[
                    Text("a "),
                    Placeholder("ALERT_DATA"),
                    Text(" b"),
                    Placeholder("X2"),
                ],
            ),
            ("{{ A }}", &[Text("{{ A }}")]),
            ("{{a}} {{2A}} {{}}", &[Text("{{a}} {{2A}} {{}}")]),
            ("{{{A}}}", &[Text("{"), Placeholder("A"), Text("}")]),
            ("{{A", &[Text("{{A")]),
            ("{{A{{B}}", &[Text("{{A"), Placeholder("B")]),
            ("é{{B}}é", &[Text("é"), Placeholder("B"), Text("é")]),
        ];
        for (template, expected) in cases {
            assert_eq!(&segments(template), expected, "{template}");
        }
    }
}
