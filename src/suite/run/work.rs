//! Work of a suite row: a complete case, or a question that an agent must answer first.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::agents::{AgentAnswer, AgentName};
use crate::job::Kind;
use crate::score::{Fault, Field, about, nearest, read_case};
use crate::suite::{SuiteError, SuiteRow};

/// Columns of question files in addition to the fields of a case: the original names of two fields.
pub(super) const QUESTION_FIELDS: &[Field] = &[Field::text("id"), Field::text("agent")];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    Case {
        payload: Value,
        /// Whether it has metrics of the judge.
        is_judged: bool,
    },
    Question(AgentQuestion),
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentQuestion {
    /// Index in the suite, from 0.
    pub item_no: u64,
    /// Key that links the question and its answer.
    pub test_id: String,
    pub agent: AgentName,
    pub text: String,
    case: Map<String, Value>,
}

impl Work {
    /// Reads a row and validates the parts that don't depend on an answer. Returns all errors.
    pub(super) fn read(kind: Kind, row: SuiteRow) -> Result<Self, Vec<SuiteError>> {
        let (line, item_no) = (row.line, row.item_no);
        let asks_agents = about(kind).asks_agents;
        let mut names = Written::default();
        let mut case = row.fields;
        if asks_agents {
            names = Written::of(&case);
            case = origin_names(case).map_err(|fault| vec![fault.at(line)])?;
        }
        let is_answered = |name: &&str| case.get(*name).is_some_and(|value| !value.is_null());
        if !asks_agents || AgentAnswer::FIELDS.iter().any(is_answered) {
            let payload = Value::Object(case);
            let read =
                read_case(kind, &payload).map(|case| case.needs_judge() && case.model().is_none());
            return match read {
                Ok(is_judged) => Ok(Self::Case { payload, is_judged }),
                Err(found) => Err(found.into_iter().map(|it| names.at(it, line)).collect()),
            };
        }
        // Valid once it has an answer.
        let mut answered = case.clone();
        answered.insert("success".to_owned(), Value::Bool(true));
        let found = read_case(kind, &Value::Object(answered)).err();
        let given: Vec<String> = case.keys().cloned().collect();
        let (question, missing) = AgentQuestion::from_case(item_no, case);
        let is_reported = |fault: &Fault| missing.iter().any(|it| it.0 == column(&fault.pointer));
        let others = found.into_iter().flatten();
        let others: Vec<Fault> = others.filter(|fault| !is_reported(fault)).collect();
        let missing = missing.into_iter().map(|Missing(name, remedy)| {
            let column = names.name(name);
            let is_missing = !given.iter().any(|field| field == name);
            let near = nearest(column, given.iter().map(String::as_str));
            let remedy = match near.filter(|_| is_missing) {
                Some(near) => format!("is missing; is it {near:?}? {remedy}").into(),
                None => remedy,
            };
            Missing(column, remedy).at(line)
        });
        let mut faults: Vec<SuiteError> = missing.collect();
        faults.extend(others.into_iter().map(|fault| names.at(fault, line)));
        question
            .filter(|_| faults.is_empty())
            .map(Self::Question)
            .ok_or(faults)
    }
}

impl AgentQuestion {
    /// Returns the question, and its missing or invalid fields. `None` if there are any.
    fn from_case(item_no: u64, case: Map<String, Value>) -> (Option<Self>, Vec<Missing>) {
        let mut missing = Vec::new();
        let mut text = |name: &'static str, remedy: &'static str| {
            let value = case.get(name).and_then(Value::as_str).map(str::trim);
            let value = value.filter(|value| !value.is_empty()).map(str::to_owned);
            if value.is_none() {
                missing.push(Missing(name, remedy.into()));
            }
            value.unwrap_or_default()
        };
        let test_id = match case.get("test_id").and_then(Value::as_number) {
            Some(id) => id.to_string(),
            None => text("test_id", "give each question a unique id"),
        };
        let named = text("agent_used", "set the agent: sql or docking");
        let question = text("question", "set the question for the agent");
        let agent = AgentName::parse(&named);
        if agent.is_none() && !named.is_empty() {
            missing.push(Missing(
                "agent_used",
                format!("{named:?} is no agent; give sql or docking").into(),
            ));
        }
        let asked = agent.filter(|_| missing.is_empty()).map(|agent| Self {
            item_no,
            test_id,
            agent,
            text: question,
            case,
        });
        (asked, missing)
    }

    /// Returns the id as in the file: a number stays a number.
    pub(super) fn given_id(&self) -> Value {
        self.case
            .get("test_id")
            .cloned()
            .unwrap_or_else(|| json!(self.test_id))
    }

    pub(super) fn payload(&self, answer: &AgentAnswer) -> Value {
        let mut case = self.case.clone();
        let mut set = |name: &str, value: Value| {
            if !value.is_null() {
                case.insert(name.to_owned(), value);
            }
        };
        set("generated_sql", json!(answer.generated_sql));
        set("actual_results", answer.actual_results.clone());
        set("success", json!(answer.success));
        set("error", json!(answer.error));
        set("api_success", json!(answer.api_success));
        Value::Object(case)
    }
}

#[cfg(test)]
impl AgentQuestion {
    pub(super) fn example(item_no: u64, text: &str) -> Self {
        Self {
            item_no,
            test_id: format!("q-{item_no}"),
            agent: AgentName::Sql,
            text: text.to_owned(),
            case: Map::new(),
        }
    }
}

/// Whether a row uses the column names of question files or of cases. Errors use the same names.
#[derive(Debug, Default)]
struct Written {
    id: bool,
    agent: bool,
}

impl Written {
    fn of(fields: &Map<String, Value>) -> Self {
        Self {
            id: !fields.contains_key("test_id"),
            agent: !fields.contains_key("agent_used"),
        }
    }

    fn at(&self, fault: Fault, line: u64) -> SuiteError {
        let column = Some(column(&fault.pointer)).filter(|column| !column.is_empty());
        SuiteError {
            line: Some(line),
            column: column.map(|column| self.name(&column).to_owned()),
            message: fault.message,
        }
    }

    fn name<'a>(&self, field: &'a str) -> &'a str {
        match field {
            "test_id" if self.id => "id",
            "agent_used" if self.agent => "agent",
            other => other,
        }
    }
}

/// Invalid field and the remedy.
struct Missing(&'static str, Cow<'static, str>);

impl Missing {
    fn at(self, line: u64) -> SuiteError {
        SuiteError {
            line: Some(line),
            column: Some(self.0.to_owned()),
            message: self.1.into_owned(),
        }
    }
}

/// Renames the fields of a question file to the fields of a case: `id` to `test_id`, `agent` to `agent_used`.
fn origin_names(mut fields: Map<String, Value>) -> Result<Map<String, Value>, Missing> {
    for (given, name, both) in [
        (
            "id",
            "test_id",
            "is given together with test_id: give one of them",
        ),
        (
            "agent",
            "agent_used",
            "is given together with agent_used: give one of them",
        ),
    ] {
        let Some(value) = fields.shift_remove(given).filter(|value| !value.is_null()) else {
            continue;
        };
        if fields
            .insert(name.to_owned(), value)
            .is_some_and(|old| !old.is_null())
        {
            return Err(Missing(given, both.into()));
        }
    }
    Ok(fields)
}

/// Converts a JSON pointer to a column: its first part, with the rest unchanged.
fn column(pointer: &str) -> String {
    pointer.trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::line::id_of;

    fn row(fields: Value) -> SuiteRow {
        let Value::Object(fields) = fields else {
            panic!("an object")
        };
        SuiteRow {
            item_no: 4,
            line: 5,
            fields,
        }
    }

    fn question() -> Value {
        json!({
            "id": "q-1", "question": "How many orders?", "agent": "sql", "category": "counts",
            "difficulty": "easy", "expected_sql": "select count(*) from orders",
            "expected_answer_type": "number", "expected_results": 7, "tables_involved": ["orders"],
        })
    }

    #[test]
    fn answered_question_becomes_a_case() {
        let Ok(Work::Question(question)) = Work::read(Kind::Qas, row(question())) else {
            panic!("a question")
        };
        assert_eq!((question.item_no, question.test_id.as_str()), (4, "q-1"));
        assert_eq!(question.agent, AgentName::Sql);
        let answer = AgentAnswer {
            generated_sql: Some("select 7".to_owned()),
            actual_results: json!([{"n": 7}]),
            success: Some(true),
            ..AgentAnswer::default()
        };
        let payload = question.payload(&answer);
        assert_eq!(payload["test_id"], "q-1");
        assert_eq!(payload["agent_used"], "sql");
        assert_eq!(payload["actual_results"], json!([{"n": 7}]));
        assert_eq!(payload.get("id").or(payload.get("error")), None);
        assert_eq!(id_of(Kind::Qas, &payload).as_deref(), Some("q-1"));
    }

    #[test]
    fn question_id_may_be_a_number() {
        for name in ["id", "test_id"] {
            let mut fields = question();
            fields.as_object_mut().unwrap().shift_remove("id");
            fields[name] = json!(5);
            let Ok(Work::Question(question)) = Work::read(Kind::Qas, row(fields)) else {
                panic!("a question: {name}")
            };
            assert_eq!(question.test_id, "5", "{name}");
            let payload = question.payload(&AgentAnswer::default());
            assert_eq!(payload["test_id"], 5, "{name}");
        }
    }

    #[test]
    fn row_with_answer_is_a_case() {
        let mut fields = question();
        fields["generated_sql"] = json!("select 1");
        fields["success"] = json!(true);
        let work = Work::read(Kind::Qas, row(fields));
        assert!(matches!(work, Ok(Work::Case { .. })), "{work:?}");
    }

    #[test]
    fn misspelled_field_is_reported() {
        let mut fields = question();
        let agent = fields.as_object_mut().unwrap().shift_remove("agent");
        fields["agnt"] = agent.unwrap();
        let faults = Work::read(Kind::Qas, row(fields)).unwrap_err();
        let said = faults[0].to_string();
        assert!(
            said.starts_with("row 5, column agent: is missing; is it \"agnt\"?"),
            "{said}"
        );
    }

    #[test]
    fn missing_question_fields_are_reported_with_row() {
        for (field, value, said) in [
            (
                "id",
                Value::Null,
                "row 5, column id: give each question a unique id",
            ),
            ("agent", Value::Null, "row 5, column agent: set the agent"),
            (
                "agent",
                json!("robot"),
                "row 5, column agent: \"robot\" is no agent",
            ),
            (
                "question",
                json!("  "),
                "row 5, column question: set the question",
            ),
            (
                "test_id",
                json!("t"),
                "row 5, column id: is given together with test_id",
            ),
        ] {
            let mut fields = question();
            fields[field] = value;
            let faults = Work::read(Kind::Qas, row(fields)).unwrap_err();
            assert!(faults[0].to_string().starts_with(said), "{faults:?}");
        }
    }

    #[test]
    fn reports_all_missing_question_fields() {
        let mut fields = question();
        fields["question"] = json!(" ");
        fields["agent"] = Value::Null;
        fields["expected_answer_type"] = json!("numbr");
        let faults = Work::read(Kind::Qas, row(fields)).unwrap_err();
        let columns: Vec<_> = faults
            .iter()
            .map(|fault| fault.column.as_deref().unwrap())
            .collect();
        assert_eq!(columns, ["agent", "question", "expected_answer_type"]);
    }
}
