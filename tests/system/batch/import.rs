//! Imports: all or nothing, each row once however often the import runs, with a running server or
//! without one.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, void};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;

const TOP: &str =
    "{ board(slug: \"b\") { standings { top { nodes { score member { key region } } } } } }";

#[tokio::test]
async fn an_import_is_all_or_nothing_and_counts_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "maxScore": 100, "windows": [{ "name": "daily" }] }))
        .await;
    let (good, bad, rejects) =
        (deployment.new_file("csv"), deployment.new_file("csv"), deployment.new_file("csv"));
    let rows = "member,score,at,event_id,region\n\
        ann,30,2026-01-02T03:04:05Z,1,eu\n\
        bob,20,1767323045,2,\n\
        ann,30,2026-01-03T00:00:00+01:00,3,eu\n\
        ann,30,2026-01-02T03:04:05Z,1,eu\n";
    let bad_rows = "cid,1.5,2026-01-02T03:04:05Z,4,\n\
        bob,90,2026-01-05T00:00:00Z,5,\n\
        eve,5,yesterday,6,\n\
        ann,31,2026-01-02T03:04:05Z,1,eu\n\
        dan,7\n\
        dan,9,2026-01-05T00:00:00Z,7,\n";
    std::fs::write(&good, rows).unwrap();
    std::fs::write(&bad, format!("{rows}{bad_rows}")).unwrap();
    let (good, bad, rejects) =
        (good.to_str().unwrap(), bad.to_str().unwrap(), rejects.to_str().unwrap());

    let (code, _, error) = run(&deployment, &["import", "--board", "b", bad]);
    assert_eq!(code, 1);
    for line in [
        "line 6: 1.5 has 1 decimals",
        "line 7: the window all would hold 110: expected 0 to 100",
        "line 8: invalid at \"yesterday\"",
        "line 9: its event id \"1\"",
        "line 10: it has 2 fields",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 0);
    assert_eq!(run(&deployment, &["import", "--board", "nothing", good]).0, 1);

    let (code, imported, error) = run(&deployment, &["import", "--board", "b", good]);
    assert_eq!(
        (code, &imported["accepted"], &imported["known"]),
        (0, &json!(3), &json!(1)),
        "{error}"
    );
    assert_eq!(run(&deployment, &["import", "--board", "b", good]).1["accepted"], 0);
    let expected = json!([
        { "score": "60", "member": { "key": "ann", "region": "eu" } },
        { "score": "20", "member": { "key": "bob", "region": null } },
    ]);
    assert_eq!(api.data(TOP, json!({})).await["board"]["standings"]["top"]["nodes"], expected);

    // Without a server, the import starts the private Redis and stops it.
    api.stop().await;
    let (code, imported, error) =
        run(&deployment, &["import", "--board", "b", "--skip-bad", rejects, bad]);
    assert_eq!(
        (code, &imported["accepted"], &imported["bad"]),
        (0, &json!(1), &json!(5)),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(rejects).unwrap().lines().count(), 6);
    assert_eq!(run(&deployment, &["diff"]).0, 0);
    let api = Api::start(&deployment).await;
    assert_eq!(
        api.data(TOP, json!({})).await["board"]["standings"]["top"]["nodes"][2]["member"]["key"],
        "dan"
    );
}

#[tokio::test]
async fn what_the_history_has_of_many_members_is_skipped_but_for_what_was_voided() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "maxScore": 100, "windows": [{ "name": "daily" }] }))
        .await;
    let file = deployment.new_file("csv");
    // More members than the import asks for at once.
    let rows: String = (0..2500)
        .map(|number| {
            format!(
                "m{number},1,2026-01-02T03:04:05Z,same\nm{number},2,2026-01-02T03:04:05Z,other\n"
            )
        })
        .collect();
    std::fs::write(&file, format!("member,score,at,event_id\n{rows}")).unwrap();
    let import = || run(&deployment, &["import", "--board", "b", file.to_str().unwrap()]).1;
    let counts = |told: Value| ["accepted", "known"].map(|name| told[name].as_u64().unwrap());
    assert_eq!(counts(import()), [5000, 0]);
    assert_eq!(counts(import()), [0, 5000]);
    for event in events(&api, "b", "m1234").await {
        void(&api, event["id"].as_str().unwrap()).await;
    }
    assert_eq!(counts(import()), [2, 4998]);
    assert_eq!(counts(import()), [0, 5000]);
}

#[tokio::test]
async fn a_path_that_is_no_regular_file_is_refused_in_words() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let pipe = deployment.path("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let directory = deployment.path("directory.ndjson");
    std::fs::create_dir(&directory).unwrap();
    for (path, says) in
        [(&*pipe, "is a pipe"), (&*directory, "is a directory"), ("/dev/zero", "is a device")]
    {
        let (code, _, error) = run(&deployment, &["import", "--board", "b", path]);
        assert_eq!(code, 1, "{path}: {error}");
        assert!(error.contains(says) && error.contains("expected a regular file"), "{error}");
    }
}

#[tokio::test]
async fn a_file_of_more_rows_than_it_may_have_writes_nothing() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let file = deployment.path("three.csv");
    std::fs::write(&file, "member,score,at\nann,1,1\nbob,1,1\ncid,1,1\n").unwrap();
    let import =
        |rows: &str| run(&deployment, &["import", "--board", "b", "--rows-max", rows, &file]);
    let (code, _, error) = import("2");
    assert_eq!(code, 1);
    assert!(error.contains("has more than 2 rows") && error.contains("--rows-max"), "{error}");
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 0);
    assert_eq!(import("3").1["accepted"], 3);
    assert_eq!(import("0").0, 2);
}

#[tokio::test]
async fn no_row_is_passed_over_behind_a_quotation_mark_that_is_not_closed() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let file = deployment.path("quotes.csv");
    let import = |rows: &[&str], way: &[&str]| {
        let content = format!("member,score,at,comment\n{}", rows.concat());
        std::fs::write(&file, content).unwrap();
        run(&deployment, &[&["import", "--board", "b", &file], way].concat())
    };
    let plain = "ann,1,1,plain\n".repeat(50);
    let long = "ann,1,1,plain\n".repeat(100_000);
    let opened = "ann,1,1,\"broken\n";
    for way in [&[][..], &["--bulk"]] {
        for (rows, says) in [
            (
                &[&*plain, opened, &plain][..],
                "line 52 opens a quoted field that is not closed before line 103",
            ),
            (
                &[opened, &plain, "ann,1,1,he said \"hi\n"],
                "line 2 opens a quoted field that is not closed before line 53",
            ),
            (
                &[opened, &plain, "ann,1,1,\"whole\"\n"],
                "line 2 opens a quoted field that is not closed before line 53",
            ),
            (&[opened, &long], "line 2 opens a quoted field that is not closed before line"),
        ] {
            let (code, _, error) = import(rows, way);
            assert_eq!(code, 1, "{says}: {error}");
            assert!(error.contains(says), "{says}: {error}");
        }
        assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 0);
    }
    let whole =
        ["ann,1,1,\"two\nlines, \"\"and\"\" more\"\r\n", "bob,1,1,5\" wide\n", "cid,1,1,\"\""];
    assert_eq!(import(&whole, &["--bulk"]).1["accepted"], 3);
}

#[tokio::test]
async fn a_name_that_hides_or_turns_its_text_is_a_bad_row() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let file = deployment.path("hidden.csv");
    let rows = "ann\u{200B},1,1,,\n\u{202E}nna,1,1,,\n \u{3000},1,1,,\n\
        ann,1,1,e\u{2060},\nann,1,1,,e\u{200E}u\nann,1,1,,\u{645}\u{200C}\u{645}\n";
    std::fs::write(&file, format!("member,score,at,event_id,region\n{rows}")).unwrap();
    let (code, _, error) = run(&deployment, &["import", "--board", "b", &file]);
    assert_eq!(code, 1);
    for line in [
        "5 bad rows",
        "line 2: invalid member",
        "line 3: invalid member",
        "line 4: invalid member",
        "line 5: invalid event id",
        "line 6: invalid region",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
}
