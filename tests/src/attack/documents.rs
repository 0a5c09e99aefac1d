//! Documents and bodies that cost much before anything is executed: fragments that multiply,
//! repeated fields, nests and heaps of all kinds.

use serde_json::{Value, json};

use crate::attack::request::Attack;
use crate::model::schema::Schema;

/// Levels of fragments for which a server that follows each spread needs hours.
const LEVELS: usize = 29;

/// A chain of fragments on a type, each of which spreads the next one `fan` times.
pub fn chain(type_name: &str, levels: usize, fan: usize) -> String {
    let mut text = String::new();
    for level in 0..levels {
        let spreads = format!("...f{} ", level + 1).repeat(fan);
        text.push_str(&format!("fragment f{level} on {type_name}{{{spreads}}}"));
    }
    text + &format!("fragment f{levels} on {type_name}{{__typename}}")
}

/// The chains of the report, spread below pages of no length.
pub fn fragments() -> Vec<Attack> {
    let chain = chain("Board", LEVELS, 3);
    let mut attacks = vec![];
    for (first, variables) in [
        ("boards", json!({})),
        ("boards(first:0)", json!({})),
        ("boards(first:-1)", json!({})),
        ("boards(last:0)", json!({})),
        ("boards(first:0.0)", json!({})),
        ("boards(first:null)", json!({})),
        ("boards(first:-2147483648)", json!({})),
        ("boards(first:4294967296)", json!({})),
        ("boards(unknown:0)", json!({})),
        ("boards(first:$n)", json!({ "n": 0 })),
        ("boards(first:$n)", json!({ "n": -1 })),
        ("boards(first:$n)", json!({ "n": 0.5 })),
        ("boards(first:$n)", json!({ "n": [] })),
        ("boards(first:$n)", json!({})),
        ("boards(first:$d)", json!({})),
        ("a:boards(first:0) @skip(if:true)", json!({})),
    ] {
        let declared = match first {
            first if first.contains("$n") => "query($n:Int)",
            first if first.contains("$d") => "query($d:Int=0)",
            _ => "",
        };
        let query = format!("{declared}{{{first}{{nodes{{...f0}}}}}}{chain}");
        let what = format!("fragments below {first}, {variables}");
        attacks.push(Attack::new(&what, &query, variables));
    }
    attacks.push(Attack::get(
        "fragments in an address",
        &format!("{{...f0}}{}", self::chain("Query", 20, 2)),
    ));
    for (what, text) in [
        ("fragments in a circle", "{...a}fragment a on Query{...b}fragment b on Query{...a}"),
        (
            "a fragment of itself",
            "{...a}fragment a on Query{boards(first:0){nodes{...b}}}fragment b on Board{standings{board{...b}}}",
        ),
    ] {
        attacks.push(Attack::query(what, text));
    }
    attacks
}

/// Chains below every field that has a number or a list to multiply by, with none of it.
pub fn fragments_under_arguments(schema: &Schema) -> Vec<Attack> {
    let mut attacks = vec![];
    for place in schema.composite_places() {
        let chain = chain(&place.type_name, LEVELS, 2);
        for multiplier in &place.multipliers {
            for &value in multiplier.nothings() {
                let text = place.document(&[(multiplier.name.as_str(), value)], "...f0");
                let what = format!("fragments below {}({}:{value})", place.field, multiplier.name);
                attacks.push(Attack::query(&what, &(text + &chain)));
            }
        }
    }
    assert!(attacks.len() > 50, "only {} attacks: has the schema shrunk?", attacks.len());
    attacks
}

/// A long list in a variable that each of many fields uses, known or not.
pub fn variables() -> Vec<Attack> {
    let mut attacks = vec![];
    for argument in ["first", "last", "buckets", "above", "members", "keys", "boards", "input", "x"]
    {
        for (fields, items) in [(500, 262_144), (500, 100_000), (1500, 15_000)] {
            let fields = format!("a({argument}:$v)").repeat(fields);
            let items = vec!["[0]"; items].join(",");
            let body = format!(
                "{{\"query\":\"query($v:Int){{{fields}}}\",\"variables\":{{\"v\":[{items}]}}}}"
            );
            attacks.push(Attack::raw(&format!("{} B cloned by {argument}", body.len()), body));
        }
    }
    let texts = json!({ "v": vec!["a"; 40_000] });
    let directive = format!("query($v:[String]){{a @specifiedBy({})}}", "url:$v ".repeat(1240));
    attacks.push(Attack::new("a list in each argument of a directive", &directive, texts));
    let metadata: serde_json::Map<_, _> =
        (0..20_000).map(|number| (format!("k{number}"), json!(0))).collect();
    let score = json!({ "v": { "member": "m", "score": 1, "metadata": metadata } });
    let fields = "a(members:$v keys:$v boards:$v windows:$v input:$v) ".repeat(213);
    let operations: String =
        (0..10).map(|no| format!("query q{no}($v:ScoreInput!){{...f}}")).collect();
    let operations = format!("{operations}fragment f on Query{{{fields}}}");
    attacks.push(Attack::new("an object in each field of each operation", &operations, score));
    attacks.push(Attack::query("a default of no type", "query($a:[Nope]=[1]){a}"));
    let many: String = (0..200).map(|number| format!("$v{number}:Int ")).collect();
    attacks.push(Attack::query("200 variables", &format!("query({many}){{__typename}}")));
    attacks
}

/// Repeated and heaped parts of documents: as long as the report had them, and as long as a query
/// may be.
pub fn heaps() -> Vec<Attack> {
    let arguments = |count: usize| (0..count).map(|n| format!("a{n}:1 ")).collect::<String>();
    let overlap = |count| {
        format!("{{boards({0}){{totalCount}} boards({0}){{totalCount}}}}", arguments(count))
    };
    let duplicates = |count: usize| {
        let field = "standings{board{standings{size}}}";
        format!("{{board(slug:\"big\"){{{}}}}}", field.repeat(count))
    };
    let operations =
        |count: usize| (0..count).map(|n| format!("query q{n}{{a}}")).collect::<String>();
    let unused = |count: usize| {
        let fragments = (0..count).map(|n| format!("fragment f{n} on Query{{a}}"));
        format!("{{__typename}}{}", fragments.collect::<String>())
    };
    let nested = |open: &str, count: usize| format!("{{a(b:{}", open.repeat(count));
    let types = |levels: usize, below: &str| {
        let alone: String = (0..4).map(|no| format!("...on T{no}{{x{{{below}}}}}")).collect();
        let nest = |below: String, _| format!("{alone}...on Node{{x{{{below}}}}}");
        format!("{{node(id:\"x\"){{{}}}}}", (0..levels).fold(below.to_owned(), nest))
    };
    let of_all: String = (0..8).map(|no| format!("...on A{no}{{x{{a}}}}")).collect();
    let alone: String = (0..160).map(|no| format!("...on T{no}{{id}}")).collect();
    let of_all = format!(
        "{{node(id:\"x\"){{{of_all}...on Node{{x{{...on Node{{{}}}{alone}}}}}}}}}",
        "id ".repeat(680)
    );
    let directives = " @include(if:true)";
    let mut attacks = vec![];
    for (what, query) in [
        ("160,000 directives", format!("query{}{{__typename}}", " @a".repeat(160_000))),
        ("1,500 directives", format!("query{}{{__typename}}", directives.repeat(1500))),
        (
            "10 directives a field",
            format!("{{{}}}", format!("__typename{}", directives.repeat(10)).repeat(150)),
        ),
        ("250,000 fields", format!("{{{}}}", "a ".repeat(250_000))),
        ("15,000 fields", format!("{{{}}}", "a ".repeat(15_000))),
        ("20,000 operations", operations(20_000)),
        ("1,500 operations", operations(1500)),
        ("14,000 fragments", unused(14_000)),
        ("1,200 fragments", unused(1200)),
        ("500 KB of commas", format!("{{__typename{}}}", ",".repeat(500_000))),
        ("a comment of 500 KB", format!("{{__typename #{}\n}}", "x".repeat(500_000))),
        (
            "a block string of 500 KB",
            format!("{{board(slug:\"\"\"{}\"\"\"){{id}}}}", "\n x".repeat(160_000)),
        ),
        (
            "a block string of 30 KB",
            format!("{{board(slug:\"\"\"{}\"\"\"){{id}}}}", "\n x".repeat(10_000)),
        ),
        ("30,000 braces", "{".repeat(30_000)),
        ("fields 5,000 deep", "{a".repeat(5000) + &"}".repeat(5000)),
        ("lists 30,000 deep", nested("[", 30_000)),
        ("objects 10,000 deep", nested("{a:", 10_000)),
        (
            "a type 15,000 deep",
            format!("query($a:{}Int{}){{a}}", "[".repeat(15_000), "]".repeat(15_000)),
        ),
        ("two fields of 20,000 arguments", overlap(20_000)),
        ("two fields of 2,000 arguments", overlap(2000)),
        ("a field on 5 types, 14 levels deep", types(14, "y")),
        ("a field on 5 types, 9 levels deep", types(9, "y z a:y b:y c:y d:y")),
        ("680 fields of each of 160 types", of_all),
        ("8,000 duplicates of a field", duplicates(8000)),
        ("900 duplicates of a field", duplicates(900)),
    ] {
        attacks.push(Attack::query(what, &query));
    }
    for (what, query) in [
        ("30 KB of commas", format!("{{__typename{}}}", ",".repeat(30_000))),
        ("a comment of 30 KB", format!("{{__typename #{}\n}}", "x".repeat(30_000))),
        ("150 duplicates of a field", duplicates(150)),
        ("2,900 fields of one key", format!("{{{}}}", "__typename ".repeat(2900))),
    ] {
        attacks.push(Attack::query(what, &query).bounded());
    }
    attacks
}

/// Bodies that are no requests, or heap up what a request does not need.
pub fn bodies() -> Vec<Attack> {
    let with =
        |name: &str, value: &str| format!("{{\"query\":\"{{__typename}}\",\"{name}\":{value}}}");
    let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    let object = |count: usize| {
        let names = (0..count).map(|n| format!("\"a{n}\":0"));
        format!("{{{}}}", names.collect::<Vec<_>>().join(","))
    };
    let nest = |count: usize| "[".repeat(count) + &"]".repeat(count);
    let mut attacks = vec![];
    for (what, body) in [
        ("a body of 6.5 MB", "x".repeat(6_500_000)),
        ("a body of 600 KB", with("a", &format!("\"{}\"", "x".repeat(600_000)))),
        ("JSON 200,000 deep", nest(200_000)),
        ("variables 100,000 deep", with("variables", &nest(100_000))),
        ("a variable 1,000 deep", with("variables", &format!("{{\"v\":{}}}", nest(1000)))),
        (
            "250,000 values in a variable",
            with("variables", &format!("{{\"v\":{}}}", list("0", 250_000))),
        ),
        (
            "120,000 lists in a variable",
            with("variables", &format!("{{\"v\":{}}}", list("[]", 120_000))),
        ),
        ("50,000 variables", with("variables", &object(50_000))),
        ("a batch of requests", list("{\"query\":\"{__typename}\"}", 10_000)),
        (
            "an operation name of 400 KB",
            with("operationName", &format!("\"{}\"", "x".repeat(400_000))),
        ),
        ("a query of 400 KB", json!({ "query": "x".repeat(400_000) }).to_string()),
        (
            "a query of 30 KB without a sense",
            json!({ "query": "\u{7f}".repeat(30_000) }).to_string(),
        ),
    ] {
        attacks.push(Attack::raw(what, body));
    }
    for (what, body) in [
        ("50,000 extensions", with("extensions", &object(50_000))),
        (
            "250,000 values in an extension",
            with("extensions", &format!("{{\"v\":{}}}", list("0", 250_000))),
        ),
        ("an extension 100 deep", with("extensions", &format!("{{\"v\":{}}}", nest(100)))),
        ("50,000 further parameters", with("a", &object(50_000))),
    ] {
        attacks.push(Attack::raw(what, body).bounded());
    }
    attacks
}

/// Numbers that no page has.
pub fn numbers() -> Vec<Attack> {
    let mut attacks = vec![];
    for value in
        ["-1", "1001", "2147483647", "2147483648", "-2147483648", "1e9", "99999999999999999999"]
    {
        for field in [
            "boards(first:N){totalCount}",
            "board(slug:\"big\"){standings{top(first:N){totalCount}}}",
            "board(slug:\"big\"){standings{top(last:N){totalCount}}}",
            "board(slug:\"big\"){standings{neighbors(member:\"m00000\",above:N){rank}}}",
            "board(slug:\"big\"){standings{distribution(buckets:N){count}}}",
            "searchMembers(prefix:\"m\",first:N){totalCount}",
        ] {
            let query = format!("{{{}}}", field.replace('N', value));
            attacks.push(Attack::query(&query, &query));
        }
    }
    attacks
}

/// Distinct queries of 4 KB, which a server may keep after it has parsed them.
pub fn distinct(number: usize) -> Attack {
    let fields: String =
        (0..90).map(|n| format!("a{number}x{n}:__typename,,,,,,,,,,,,,,,")).collect();
    Attack::new("one of many queries", &format!("{{{fields}}}"), Value::Null).answered()
}
