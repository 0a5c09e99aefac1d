//! Exports of one member: everything that is kept of it, wherever it is, and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, merge, void};
use tests::api::friends::change_friends;
use tests::api::moderation::ban;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Sql};
use tests::documents::ADD_FRIEND;
use tests::jobs::analytics::run;
use tests::jobs::archive::{archive, old, paths};

/// The member "m1" with something of every kind: archived scores, one of which is voided, a copy of
/// another member's score, a friend, a token, a ban, and a score in quarantine.
async fn played(sql: Sql) -> (Arc<Deployment>, Api) {
    let (deployment, api) = old(sql).await;
    let listed = events(&api, "b", "m1").await;
    let voided = listed.iter().find(|event| event["eventId"] == "e11").unwrap();
    void(&api, voided["id"].as_str().unwrap()).await;
    assert_eq!(archive(&deployment, &[])["events"], 60);
    submit_durably(&api, "b", json!([{ "member": "m1", "score": 5, "eventId": "late" }])).await;
    api.upsert_members(vec![json!({ "key": "m1", "name": "Mona", "region": "eu" })]).await;
    change_friends(&api, ADD_FRIEND, ("m1", "m2")).await;
    let token = ["--scope", "submit", "--member", "m1", "--name", "phone"];
    deployment.new_token(&token).await;
    api.create_board(json!({ "slug": "c", "decimals": 2, "maxScore": "1000" })).await;
    submit_durably(&api, "c", json!([{ "member": "guest", "score": "7.25", "eventId": "g" }]))
        .await;
    merge(&api, "guest", "m1").await;
    ban(&api, "m1", Some("c")).await;
    submit_durably(&api, "c", json!([{ "member": "m1", "score": 3, "eventId": "q" }])).await;
    deployment.settle().await;
    (deployment, api)
}

/// Exports a member to a file, and returns the document.
fn exported(deployment: &Deployment, member: &str, more: &[&str]) -> (Value, Value) {
    let path = deployment.path("member.json");
    let arguments = [&["export-member", member, "--output", &path][..], more].concat();
    let (code, told, error) = run(deployment, &arguments);
    assert_eq!(code, 0, "{error}");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    (serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap(), told)
}

fn list<'a>(part: &'a Value, name: &str) -> &'a [Value] {
    part[name].as_array().map_or(&[], Vec::as_slice)
}

fn check_archived_board(board: &Value) {
    let all = list(board, "events");
    let of = |name: &str| -> Vec<&Value> { all.iter().map(|event| &event[name]).collect() };
    let ids = of("eventId");
    assert_eq!(
        ids,
        [
            &json!("e1"),
            &json!("e11"),
            &json!("e21"),
            &json!("e31"),
            &json!("e41"),
            &json!("e51"),
            &Value::Null,
            &json!("late")
        ]
    );
    let archived = of("isArchived").iter().filter(|is_archived| **is_archived == true).count();
    assert_eq!(archived, 6);
    let states: Vec<&str> = of("state").iter().map(|state| state.as_str().unwrap()).collect();
    let mut expected = ["COUNTS"; 8];
    expected[1] = "VOIDED";
    assert_eq!(states, expected);
    assert_eq!((&all[6]["kind"], &all[6]["voids"]), (&json!("VOID"), &all[1]["id"]));
    assert!(of("acceptedAt").iter().all(|time| time.as_str().unwrap().ends_with('Z')));
    // 1 + 21 + 31 + 41 + 51 + 5
    assert_eq!((list(board, "entries").len(), &board["entries"][0]["score"]), (1, &json!("150")));
    // The scores of five days count in sealed ones.
    assert_eq!(list(board, "sealedEntries").len(), 5);
}

#[tokio::test]
async fn an_export_has_all_that_is_kept_of_a_member() {
    for sql in Sql::all() {
        let (deployment, _api) = played(sql).await;
        let (document, told) = exported(&deployment, "m1", &[]);
        assert_eq!((&document["format"], &document["key"]), (&json!(1), &json!("m1")));
        assert_eq!(document["asOf"], told["as_of"]);
        assert_eq!(list(&document, "commits").len(), 16);
        assert_eq!(
            (&document["member"]["name"], &document["member"]["region"]),
            (&json!("Mona"), &json!("eu"))
        );
        assert_eq!(document["friends"][0]["member"], "m2");
        assert_eq!(
            (list(&document, "tokens").len(), &document["tokens"][0]["name"]),
            (1, &json!("phone"))
        );
        assert_eq!(
            (&document["merges"][0]["source"], &document["merges"][0]["step"]),
            (&json!("guest"), &json!("DONE"))
        );
        assert_eq!(
            (&document["bans"][0]["board"]["slug"], &document["bans"][0]["reason"]),
            (&json!("c"), &json!("a bot"))
        );
        let [b, c] = list(&document, "boards") else { panic!("{document}") };
        check_archived_board(b);
        assert_eq!((&c["slug"], &c["isRemovedByBan"]), (&json!("c"), &json!(true)));
        let [copy, removal] = list(c, "events") else { panic!("{c}") };
        assert_eq!((&copy["score"], &copy["state"]), (&json!("7.25"), &json!("REMOVED")));
        assert!(copy["copyOf"].as_str().unwrap().starts_with("event:"));
        assert_eq!((&removal["kind"], &removal["state"]), (&json!("REMOVAL"), &json!("COUNTS")));
        let [quarantined] = list(c, "quarantine") else { panic!("{c}") };
        assert_eq!(
            (&quarantined["score"], &quarantined["suspicion"], &quarantined["state"]),
            (&json!("3.00"), &json!("BANNED"), &json!("HELD"))
        );
        assert_eq!((&told["boards"], &told["events"]), (&json!(2), &json!(10)));

        let text = document.to_string();
        for secret in deployment.column::<String>("SELECT hash FROM access_token").await {
            assert!(!text.contains(&secret));
        }
        // Another member has its own alone.
        let (other, _) = exported(&deployment, "m3", &["--force"]);
        assert_eq!(list(&other, "boards").len(), 1);
        assert!(
            list(&other["boards"][0], "events")
                .iter()
                .all(|event| { event["eventId"].as_str().unwrap().ends_with('3') })
        );
        assert!(!other.to_string().contains("m1"));
    }
}

#[tokio::test]
async fn an_export_replaces_no_file_by_itself_and_leaves_none_that_is_not_whole() {
    let (deployment, _api) = played(Sql::any()).await;
    let output = deployment.analytics(&["export-member", "m1"]);
    assert!(output.status.success());
    let mut to_output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("10 of them events"));
    let (mut in_file, _) = exported(&deployment, "m1", &[]);
    for document in [&mut to_output, &mut in_file] {
        document["asOf"] = Value::Null;
    }
    assert_eq!(to_output, in_file);

    let path = deployment.path("member.json");
    let refused = |path: &str, member: &str, more: &[&str], why: &str| {
        let arguments = [&["export-member", member, "--output", path][..], more].concat();
        let (code, _, error) = run(&deployment, &arguments);
        assert!(code == 1 && error.contains(why), "{code} {error}");
    };
    refused(&path, "m3", &[], "--force");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("Mona"));
    let (link, new) = (deployment.path("link.json"), deployment.path("new.json"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    refused(&link, "m1", &["--force"], "no regular file");
    refused(&deployment.path("data"), "m1", &["--force"], "no regular file");
    refused(&new, "nobody", &[], "nothing is kept of member");
    let files = paths(&deployment);
    for file in files {
        let file = deployment.archive_dir().join(&file);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[1..]).unwrap();
    }
    refused(&new, "m1", &[], "missing or altered");
    assert!(!std::path::Path::new(&new).exists());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let left = std::fs::read_dir(std::path::Path::new(&path).parent().unwrap()).unwrap();
    let left = left.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".partial")
    });
    assert_eq!(left.count(), 0);
}
