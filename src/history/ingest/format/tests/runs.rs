//! The tests of runs and states of frameworks, and of samples of Inspect.

use super::*;

#[test]
fn runs_of_langsmith_are_read_flat_and_nested() {
    let run = |id: &str, parent: Option<&str>, kind: &str, second: u64| {
        json!({"id": id, "trace_id": "r0", "parent_run_id": parent, "name": if kind == "tool" { "get_weather" } else { "weather" }, "run_type": kind,
            "start_time": format!("2026-01-01T00:00:0{second}.123456"), "end_time": format!("2026-01-01T00:00:0{}", second + 1),
            "status": "success", "error": null, "inputs": {}, "outputs": {}, "feedback_stats": {"correctness": {"avg": 1.0}}})
    };
    let (system, user) = (
        langchain("SystemMessage", json!({"content": "Be brief."})),
        langchain("HumanMessage", json!({"content": "Weather in Paris?"})),
    );
    let call = langchain(
        "AIMessage",
        json!({"content": "I look it up.", "tool_calls": [{"name": "get_weather", "args": {"location": "Paris"}, "id": "call_1"}],
        "additional_kwargs": {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]}}),
    );
    let result = langchain(
        "ToolMessage",
        json!({"content": "rainy, 57°F", "tool_call_id": "call_1", "name": "get_weather"}),
    );
    let mut root = run("r0", None, "chain", 0);
    root["extra"] = json!({"metadata": {"thread_id": "thread-4"}});
    let mut first = run("r1", Some("r0"), "llm", 1);
    first["extra"] = json!({"invocation_params": {"tools": openai_tools()}});
    first["inputs"] = json!({"messages": [[system, user]]});
    first["outputs"] = json!({"generations": [[{"text": "I look it up.", "message": call}]]});
    let mut tool = run("r2", Some("r0"), "tool", 3);
    tool["inputs"] = json!({"input": "{\"location\":\"Paris\"}"});
    tool["outputs"] = json!({"output": result});
    let mut second = run("r3", Some("r0"), "llm", 5);
    second["inputs"] = json!({"messages": [[system, user, call, result]]});
    second["outputs"] =
        json!({"choices": [{"message": {"role": "assistant", "content": "Rain, 57°F."}}]});
    let flat = json!([second, root, tool, first]);
    for (file, what) in [
        (flat.clone(), "flat"),
        (json!({"runs": flat}), "an answer of the API"),
    ] {
        let session = only(&file);
        assert_weather(&session, what);
        assert_eq!(session.external_id.as_deref(), Some("thread-4"));
        assert_eq!(
            session.started_at.as_deref(),
            Some("2026-01-01T00:00:00.123456Z")
        );
    }
    let mut nested = root;
    nested["child_runs"] = json!([first, tool, second]);
    for run in nested["child_runs"].as_array_mut().unwrap() {
        run.as_object_mut()
            .unwrap()
            .retain(|key, _| !matches!(key.as_str(), "trace_id" | "parent_run_id"));
    }
    assert_weather(&only(&nested), "nested");
    nested["status"] = json!("error");
    assert_eq!(only(&nested).status.as_deref(), Some("failed"));
    let said = read(&nested, None)
        .iter()
        .any(|session| format!("{session:?}").contains("correctness"));
    assert!(!said, "what others think of it would sway the judge");
}

#[test]
fn trace_without_messages_has_input_and_output_of_its_root() {
    let session = only(&json!([
        {"id": "r0", "run_type": "chain", "name": "assistant", "inputs": {"question": "Why?"}, "outputs": {"answer": "So."}},
        {"id": "r1", "trace_id": "r0", "parent_run_id": "r0", "run_type": "prompt", "name": "p", "inputs": {}, "outputs": {}},
    ]));
    assert_eq!(lines(&session), [("user", "Why?", None, None)]);
    assert_eq!(session.final_analysis.as_deref(), Some("So."));
    assert_eq!(session.agent.as_deref(), Some("assistant"));
}

#[test]
fn each_sample_of_an_inspect_log_is_a_session() {
    let mut messages = openai_messages();
    messages[2]["tool_calls"] = json!([{"id": "call_1", "function": "get_weather", "arguments": {"location": "Paris"}, "type": "function"}]);
    messages[3]["function"] = json!("get_weather");
    let sample = |id: Value, epoch: u64| {
        json!({"id": id, "epoch": epoch, "input": "Weather in Paris?", "target": "SECRET TARGET", "messages": messages,
            "events": [{"event": "model", "tools": [{"name": "get_weather"}]}], "output": {"completion": "Rain, 57°F."},
            "scores": {"includes": {"value": "C", "explanation": "SECRET SCORE"}}, "started_at": "2026-01-01T00:00:00+00:00"})
    };
    let log = json!({"version": 2, "status": "success", "eval": {"run_id": "R1", "task": "weather", "model": "openai/gpt-4o"}, "plan": {},
        "samples": [sample(json!(1), 1), sample(json!("b"), 2)]});
    let sessions = read(&log, None);
    let ids: Vec<_> = sessions
        .iter()
        .map(|s| s.external_id.as_deref().unwrap())
        .collect();
    assert_eq!(ids, ["R1/1/1", "R1/b/2"]);
    for session in &sessions {
        assert_weather(session, "inspect");
        assert_eq!(
            (session.alert_type.as_deref(), session.agent.as_deref()),
            (Some("weather"), Some("openai/gpt-4o"))
        );
        assert!(!format!("{session:?}").contains("SECRET"));
    }
    let mut put = log;
    put["format"] = json!("inspect");
    let InvalidSession { faults } = parse_session(&put.to_string()).unwrap_err();
    assert!(faults[0].message.contains("holds 2 sessions"), "{faults:?}");
}

#[test]
fn outermost_step_holds_the_conversation_if_no_model_step_does() {
    let root = |input: Value, output: Value| json!({"id": "r", "trace_id": "r", "run_type": "chain", "start_time": "2026-01-01T00:00:00Z", "inputs": input, "outputs": output});
    let after = json!(state().as_array().unwrap()[1..]);
    for (what, run) in [
        (
            "state",
            root(
                json!({"messages": [state()[0]]}),
                json!({"messages": state()}),
            ),
        ),
        (
            "pair",
            root(
                json!({"messages": [["user", "Full?"]]}),
                json!({"messages": state()}),
            ),
        ),
        (
            "answer",
            root(json!({"question": "Full?"}), json!({"messages": after})),
        ),
        (
            "braintrust",
            json!({"id": "r", "span_id": "r", "root_span_id": "r", "span_attributes": {"type": "task"},
                "input": [state()[0]], "output": after}),
        ),
        (
            "input and output",
            json!({"id": "t", "input": {"messages": [state()[0]]}, "output": {"messages": state()}}),
        ),
    ] {
        assert_state(&only(&run), what);
    }
    let rules = [json!({"role": "system", "content": "Be brief."})];
    let listed = |messages: &[Value]| json!({"messages": ([&rules, messages].concat())});
    let (asked, said) = (
        listed(&[state()[0].clone()]),
        listed(state().as_array().unwrap()),
    );
    let session = only(&json!({"id": "t", "input": asked, "output": said}));
    assert_eq!(session.conversation.len(), 4);
    // The step of a tool repeats the message with its result.
    let tool = json!({"id": "t", "trace_id": "r", "parent_run_id": "r", "run_type": "tool", "name": "ls",
        "start_time": "2026-01-01T00:00:01Z", "inputs": {}, "outputs": {"output": "97 %"}});
    let mut run = root(
        json!({"messages": [state()[0]]}),
        json!({"messages": state()}),
    );
    assert_state(&only(&json!([run.clone(), tool])), "with a tool");
    // Each run of a thread repeats the thread, or holds its own turn alone.
    let mut thread = |id: &str, input: &str, output: Value| {
        run["id"] = id.into();
        run["trace_id"] = id.into();
        run["extra"] = json!({"metadata": {"thread_id": "t-1"}});
        run["inputs"] = json!({"messages": [{"role": "user", "content": input}]});
        run["outputs"] = json!({"messages": output});
        run.clone()
    };
    let mut whole = state().as_array().unwrap().clone();
    whole.extend([
        json!({"role": "user", "content": "Go on."}),
        json!({"role": "assistant", "content": "Done."}),
    ]);
    let runs = [
        thread("r1", "Full?", state()),
        thread("r2", "Go on.", whole.into()),
    ];
    let session = only(&json!(runs));
    assert_eq!(session.conversation.len(), 5);
    assert_eq!(session.final_analysis.as_deref(), Some("Done."));
    let say = |text: &str| json!([{"role": "assistant", "content": text}]);
    let runs = [
        thread("r1", "Go on.", say("First.")),
        thread("r2", "Go on.", say("Second.")),
    ];
    let session = only(&json!(runs));
    let asked = session
        .conversation
        .iter()
        .filter(|it| it.content == "Go on.");
    assert_eq!(asked.count(), 2);
}

#[test]
fn steps_without_an_end_time_stand_at_their_start() {
    let step = |id: &str, parent: Value, kind: &str, second: u8, input: Value, output: Value| {
        json!({"id": id, "traceId": "t", "parentObservationId": parent, "type": kind, "name": "ls",
            "startTime": format!("2026-01-01T00:00:0{second}Z"), "input": input, "output": output})
    };
    for seconds in [[0, 0, 0, 0], [0, 1, 2, 3]] {
        let [root, first, tool, last] = seconds;
        let session = only(&json!([
            step(
                "a",
                Value::Null,
                "AGENT",
                root,
                json!("Full?"),
                json!("Yes.")
            ),
            step(
                "b",
                json!("a"),
                "GENERATION",
                first,
                json!([state()[0]]),
                state()[1].clone()
            ),
            step("c", json!("a"), "TOOL", tool, json!({}), json!("97 %")),
            step(
                "d",
                json!("a"),
                "GENERATION",
                last,
                json!([state()[0], state()[1], state()[2]]),
                state()[3].clone()
            ),
        ]));
        assert_state(&session, &format!("{seconds:?}"));
    }
}

#[test]
fn states_of_one_conversation_are_one_session() {
    let until = |n: usize| json!({"messages": state().as_array().unwrap()[..n]});
    let states = json!([until(1), until(2), until(3), until(4)]);
    assert_state(&only(&states), "each repeats the one before it");
    let mut other = states;
    other[1]["messages"][0]["content"] = "Slow?".into();
    assert_eq!(read(&other, None).len(), 4);
}

#[test]
fn a_tools_object_stays_an_object() {
    let run = |id: &str, kind: &str, second: u8, inputs: Value, outputs: Value| {
        json!({"id": id, "trace_id": "r0", "parent_run_id": if id == "r0" { None } else { Some("r0") }, "name": id, "run_type": kind,
            "start_time": format!("2026-01-01T00:00:0{second}"), "inputs": inputs, "outputs": outputs})
    };
    let session = only(&json!([
        run(
            "r0",
            "chain",
            0,
            json!({"question": "Approved?"}),
            json!({"answer": "No."})
        ),
        run(
            "r1",
            "tool",
            1,
            json!({"order": 4711}),
            json!({"approved": false})
        ),
        run(
            "r2",
            "tool",
            2,
            json!({"order": 4711}),
            json!({"error": "permission denied"})
        ),
        run(
            "r3",
            "tool",
            3,
            json!({"input": "text"}),
            json!({"output": {"state": "open"}})
        ),
    ]));
    let read: Vec<&str> = session
        .conversation
        .iter()
        .map(|it| it.content.as_str())
        .collect();
    assert_eq!(
        read,
        [
            "Approved?",
            "Arguments: {\"order\":4711}\nResult:\n{\"approved\":false}",
            "Arguments: {\"order\":4711}\nResult:\n{\"error\":\"permission denied\"}",
            "Arguments: text\nResult:\n{\"state\":\"open\"}",
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("No."));
}

#[test]
fn a_question_that_only_the_outermost_step_holds_is_added() {
    let trace = |question: &str| {
        only(&json!([
            {"id": "r0", "run_type": "chain", "name": "rag", "inputs": {"question": question}, "outputs": {"answer": "97 %"}},
            {"id": "r1", "trace_id": "r0", "parent_run_id": "r0", "run_type": "llm", "name": "m",
                "inputs": {"messages": [{"role": "user", "content": "Context: df. Which host is full?"}]},
                "outputs": {"choices": [{"message": {"role": "assistant", "content": "97 %"}}]}},
        ]))
    };
    assert_eq!(trace("Which host is full?").conversation.len(), 1);
    let added = trace("How full is db1?");
    assert_eq!(lines(&added)[0], ("user", "How full is db1?", None, None));
    assert_eq!(added.final_analysis.as_deref(), Some("97 %"));
}
