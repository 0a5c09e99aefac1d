//! The audit log and reports of members, through GraphQL.

use serde_json::{Value, json};

use crate::api::{Answer, Api};

/// The audit log: a page of it, by a filter.
pub const AUDIT_LOG: &str = "
    query($filter: AuditFilterInput, $first: Int, $after: String, $last: Int, $before: String) {
        auditLog(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
            pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes {
                id at actor actorName act board member outcome error before after
            }
        }
    }";

const REPORT: &str = "
    mutation($input: ReportMemberInput!) { reportMember(input: $input) {
        board { slug } member { key }
    } }";

const REPORTS: &str = "
    query($slug: String!, $states: [ReportState!], $member: String) {
        board(slug: $slug) { reports(states: $states, member: $member, first: 1000) { nodes {
            id reason text further state resolvedAt member { key } reporter { key }
        } } }
    }";

/// The acts of a filter, newest first.
pub async fn acts(api: &Api, filter: Value) -> Vec<Value> {
    let data = api.data(AUDIT_LOG, json!({ "filter": filter, "first": 1000 })).await;
    data["auditLog"]["nodes"].as_array().unwrap().clone()
}

/// The JSON of a field of an act.
pub fn value(act: &Value, field: &str) -> Value {
    act[field].as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// Reports a member with a token.
pub async fn try_report(api: &Api, token: &str, input: Value) -> Answer {
    api.ask(Some(token), REPORT, json!({ "input": input })).await
}

/// Reports a member on board b as a service, which must be accepted.
pub async fn report(api: &Api, (reporter, member): (&str, &str), text: &str) {
    let input = json!({
        "board": "b", "member": member, "reporter": reporter, "reason": "CHEATING", "text": text,
    });
    let answer = try_report(api, api.token(), input).await;
    assert_eq!(answer.body["data"]["reportMember"]["member"]["key"], member, "{}", answer.body);
}

/// The reports of board b in some states, of one member or all.
pub async fn reports(api: &Api, states: &[&str], member: Option<&str>) -> Vec<Value> {
    let variables = json!({ "slug": "b", "states": states, "member": member });
    let data = api.data(REPORTS, variables).await;
    data["board"]["reports"]["nodes"].as_array().unwrap().clone()
}
