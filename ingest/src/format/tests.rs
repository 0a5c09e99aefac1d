//! A message in each of the formats means the same score as `submitScores`.

use hyper::body::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// A score, and where a message may say its parts.
#[derive(Debug, Clone)]
struct Case {
    member: String,
    score: Value,
    at_ms: i64,
    id: Option<String>,
    metadata: Option<Value>,
    attributes: Option<Vec<(String, String)>>,
    board: String,
}

/// The forms of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    Array,
    Structured,
    StructuredArray,
    Binary,
}

const FORMS: [Form; 5] =
    [Form::Object, Form::Array, Form::Structured, Form::StructuredArray, Form::Binary];

/// The places of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the score.
    Score,
    /// In the event, or in what the broker says of the message.
    Around,
}

fn cases() -> impl Strategy<Value = Case> {
    let score = prop_oneof![
        (-999_999_999_999_999_i64..=999_999_999_999_999).prop_map(|number| json!(number)),
        "-?[0-9]{1,12}\\.[0-9]{1,4}".prop_map(|text| json!(text)),
    ];
    let metadata = prop_oneof![
        Just(json!({ "replay": "r1", "n": [1, 2.5, null] })),
        Just(json!({})),
        "\\PC{0,20}".prop_map(|text| json!({ "t": text })),
    ];
    let attributes = proptest::collection::vec(("[a-z]{1,8}", "\\PC{1,8}"), 0..3);
    (
        "\\PC{1,20}",
        score,
        0..4_000_000_000_000_i64,
        proptest::option::of("[!-~]{1,60}"),
        proptest::option::of(metadata),
        proptest::option::of(attributes),
        "[a-z0-9][a-z0-9_-]{0,20}",
    )
        .prop_map(|(member, score, at_ms, id, metadata, attributes, board)| Case {
            member,
            score,
            at_ms,
            id,
            metadata,
            attributes,
            board,
        })
}

impl Case {
    /// The input that a client of the API would send. A score is sent as text.
    fn input(&self, id: Option<&str>) -> Value {
        let mut input = json!({
            "member": self.member,
            "score": self.score.as_str().map_or_else(|| self.score.to_string(), str::to_owned),
            "at": instant(self.at_ms).unwrap(),
        });
        let fields = input.as_object_mut().unwrap();
        if let Some(id) = id {
            fields.insert("eventId".to_owned(), json!(id));
        }
        self.add_rest(fields);
        input
    }

    /// The score as a message has it.
    fn item(&self, places: [Place; 3]) -> Value {
        let mut item = json!({ "member": self.member, "score": self.score });
        let fields = item.as_object_mut().unwrap();
        let [board, at, id] = places.map(|place| place == Place::Score);
        if board {
            fields.insert("board".to_owned(), json!(self.board));
        }
        if at {
            fields.insert("at".to_owned(), json!(instant(self.at_ms).unwrap()));
        }
        if let Some(known) = self.id.as_ref().filter(|_| id) {
            fields.insert("eventId".to_owned(), json!(known));
        }
        self.add_rest(fields);
        item
    }

    fn add_rest(&self, fields: &mut Map<String, Value>) {
        if let Some(metadata) = &self.metadata {
            fields.insert("metadata".to_owned(), metadata.clone());
        }
        if let Some(attributes) = &self.attributes {
            let pairs =
                attributes.iter().map(|(name, value)| json!({ "name": name, "value": value }));
            fields.insert("attributes".to_owned(), pairs.collect());
        }
    }

    /// The message, and the event id that its score has.
    fn message(&self, form: Form, places: [Place; 3]) -> (Message, Option<String>) {
        let item = self.item(places);
        let [_, at, id] = places.map(|place| place == Place::Around);
        let mut message =
            Message { subject: format!("scores.{}", self.board), ..Message::default() };
        let is_array = matches!(form, Form::Array | Form::StructuredArray);
        let data = if is_array { json!([item]) } else { item };
        let time = instant(self.at_ms).unwrap();
        let known = self.id.clone().unwrap_or_else(|| "i".to_owned());
        let around = match form {
            Form::Object | Form::Array => {
                message.payload = data.to_string().into();
                message.at_ms = Some(if at { self.at_ms } else { 7 });
                message.id = self.id.clone().filter(|_| id);
                message.id.clone()
            }
            Form::Structured | Form::StructuredArray => {
                message.content_type = Some("application/cloudevents+json; charset=utf-8".into());
                let mut event = json!({
                    "specversion": "1.0", "type": "t", "source": "/games", "id": known,
                    "data": data, "extension": 1,
                });
                if at {
                    event["time"] = json!(time);
                }
                message.payload = event.to_string().into();
                message.at_ms = Some(7);
                Some(format!("/games {known}"))
            }
            Form::Binary => {
                message.content_type = Some("application/json".into());
                message.payload = data.to_string().into();
                message.at_ms = Some(7);
                let mut attributes = vec![
                    ("specversion", "1.0"),
                    ("source", "/games"),
                    ("id", &known),
                    ("type", "t"),
                ];
                if at {
                    attributes.push(("time", &time));
                }
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                message.attributes = attributes.into_iter().map(owned).collect();
                Some(format!("/games {known}"))
            }
        };
        let around = around.map(|id| if is_array { format!("{id}/0") } else { id });
        let own = self.id.clone().filter(|_| !id);
        (message, own.or(around))
    }
}

proptest! {
    #[test]
    fn a_message_in_each_format_is_the_score_that_a_client_would_send(
        case in cases(),
        places in [any::<bool>(), any::<bool>(), any::<bool>()],
    ) {
        let places = places.map(|is_around| if is_around { Place::Around } else { Place::Score });
        let boards = Boards::new(None, Some("scores.{board}")).unwrap();
        for form in FORMS {
            let (message, id) = case.message(form, places);
            let reading = read(&message, &boards);
            prop_assert_eq!(&reading.fault, &None, "{:?}", form);
            let [score] = &reading.scores[..] else { panic!("{reading:?}") };
            prop_assert_eq!(&score.board, &case.board);
            let input: Value = serde_json::from_str(&score.input).unwrap();
            prop_assert_eq!(input, case.input(id.as_deref()), "{:?}", form);
        }
    }

    #[test]
    fn no_message_makes_the_reader_fail(payload in any::<Vec<u8>>(), text in "\\PC{0,200}") {
        for content_type in [None, Some("application/cloudevents+json"), Some("\u{e9}")] {
            for payload in [&payload[..], text.as_bytes()] {
                let content_type = content_type.map(str::to_owned);
                let message =
                    Message { payload: Bytes::copy_from_slice(payload), content_type, ..Message::default() };
                let reading = read(&message, &Boards::One("b".to_owned()));
                prop_assert!(reading.fault.is_some() || !reading.scores.is_empty());
            }
        }
    }
}

/// The fault of a message with this payload, on the board `b`, with a time of the broker's.
fn fault(payload: &str) -> Fault {
    let message = Message {
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        at_ms: Some(7),
        ..Message::default()
    };
    read(&message, &Boards::One("b".to_owned())).fault.unwrap()
}

#[test]
fn a_refused_message_says_what_would_be_accepted() {
    for (payload, said) in [
        ("", "it is not a score"),
        ("{", "it is not a score: EOF"),
        ("12", "it is not a score: invalid type"),
        ("[]", "expected 1 to 1,000 scores"),
        ("[1]", "score 0: it is not a score"),
        (r#"{"member":"a"}"#, "missing field `score`"),
        (r#"{"member":"a","score":1,"eventID":"x"}"#, "unknown field `eventID`, expected one of"),
        (r#"{"member":"a","score":1234567890123456}"#, "more than 15 digits"),
        (r#"{"member":"a","score":1,"board":"B!"}"#, "invalid slug"),
        (r#"{"member":"a","score":true}"#, "expected text or a number"),
    ] {
        let told = fault(payload);
        assert!(told.code == "BAD_USER_INPUT" && told.reason.contains(said), "{payload}: {told:?}");
    }
    let many = format!("[{}]", vec!["{}"; MESSAGE_SCORES_MAX + 1].join(","));
    assert_eq!(fault(&many).code, "LIMIT_EXCEEDED");
    assert_eq!(fault(&" ".repeat(MESSAGE_BYTES_MAX + 1)).code, "LIMIT_EXCEEDED");
    let untimed = Message {
        payload: Bytes::from_static(br#"{"member":"a","score":1}"#),
        ..Message::default()
    };
    let told = read(&untimed, &Boards::One("b".to_owned())).fault.unwrap();
    assert!(told.reason.contains("it has no time"), "{told:?}");
    let told = read(&untimed, &Boards::Named).fault.unwrap();
    assert!(told.reason.contains("it names no board"), "{told:?}");
}

#[test]
fn a_fault_of_one_score_spares_the_others() {
    let payload = r#"[{"member":"a","score":1},{"member":2},{"member":"b","score":"2"},3]"#;
    let message = Message {
        payload: payload.into(),
        at_ms: Some(7),
        id: Some("m".repeat(ID_BYTES_MAX)),
        ..Message::default()
    };
    let reading = read(&message, &Boards::One("b".to_owned()));
    let items: Vec<_> = reading.scores.iter().map(|score| score.item).collect();
    assert_eq!(items, [Some(0), Some(2)]);
    assert!(reading.fault.unwrap().reason.starts_with("score 1: "));
    // A long id is named by its hash, which differs by item.
    let ids: Vec<String> = reading
        .scores
        .iter()
        .map(|score| {
            let input: Value = serde_json::from_str(&score.input).unwrap();
            input["eventId"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(ids.iter().all(|id| id.starts_with("sha256:") && id.len() == 71), "{ids:?}");
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_cloud_event_is_read_by_its_type_and_refused_in_words() {
    let check = |content_type: &str, payload: &str, said: &str| {
        let message = Message {
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            content_type: Some(content_type.to_owned()),
            at_ms: Some(7),
            ..Message::default()
        };
        let told = read(&message, &Boards::One("b".to_owned())).fault.unwrap();
        assert!(told.reason.contains(said), "{content_type} {payload}: {told:?}");
    };
    let json = "application/cloudevents+json";
    check("application/cloudevents-batch+json", "[]", "expected application/cloudevents+json");
    check("application/cloudevents+avro", "", "expected application/cloudevents+json");
    check(json, "{}", "it is not a CloudEvent: missing field");
    check(json, r#"{"specversion":"0.3","id":"1","source":"s"}"#, "expected 1.0");
    check(json, r#"{"specversion":"1.0","id":"1","source":"a b","data":{}}"#, "source");
    check(json, r#"{"specversion":"1.0","id":"1","source":"s","data_base64":"AA=="}"#, "in JSON");
    check(json, r#"{"specversion":"1.0","id":"1","source":"s","data":"x"}"#, "it is not a score");
}

#[test]
fn a_template_takes_the_board_out_of_a_subject() {
    let boards = Boards::new(None, Some("scores.{board}.v1")).unwrap();
    for (subject, board) in
        [("scores.chess.v1", Some("chess")), ("scores.chess", None), ("other.chess.v1", None)]
    {
        assert_eq!(boards.of(subject).as_deref(), board, "{subject}");
    }
    for template in ["scores", "{board}{board}"] {
        assert!(Boards::new(None, Some(template)).is_err(), "{template}");
    }
    assert!(Boards::new(Some("No slug"), None).is_err());
}
