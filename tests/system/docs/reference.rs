//! The reference: pages that are written from the programs, and the codes of errors.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use engine::settings::Setting;

use tests::servers::program;

/// The width of a page's help texts, in columns.
const COLUMNS: &str = "100";

/// The text of a page.
fn page(name: &str) -> String {
    fs::read_to_string(program::root().join("docs/reference").join(name)).unwrap_or_default()
}

/// Fails if a page is not as given, and writes it.
fn check_page(name: &str, said: &str) {
    if page(name) != said {
        fs::write(program::root().join("docs/reference").join(name), said).unwrap();
        panic!("docs/reference/{name} was stale and is now written: review it and commit it");
    }
}

/// The help of a command, such as `token create`.
fn help(mut command: Command, names: &[String]) -> String {
    command.args(names).arg("--help").env("COLUMNS", COLUMNS).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "laurel {names:?} --help");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let command = line.strip_prefix("  ").filter(|command| !command.starts_with(' '))?;
        command.split(' ').next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

/// The help of a command and of those below it; `batch` are those of the other program.
fn describe(names: &[String], batch: &[String]) -> String {
    let is_batch = names.first().is_some_and(|name| batch.contains(name));
    let program = if is_batch { program::analytics() } else { program::api() };
    let help = help(program, names);
    let title = [&["laurel".to_owned()], names].concat().join(" ");
    let below = commands(&help);
    let below =
        below.iter().map(|name| describe(&[names, std::slice::from_ref(name)].concat(), batch));
    let below: String = below.collect();
    format!("\n## {title}\n\n```text\n{help}```\n{below}")
}

#[test]
fn the_page_of_commands_is_the_help_of_the_programs() {
    let batch = commands(&help(program::analytics(), &[]));
    let head = "<!--
A test writes this page from the help of the programs: edit their sources, not the page.
-->

# Commands

`laurel` serves and administers; the commands from `import` to `generate` are run by `laurel-analytics`, `ingest` and `feed` by `laurel-ingest`.
Both lie beside it.
[Settings](settings.md) has every option that is also an environment variable, and [errors](errors.md#exit-statuses) has the exit statuses.
";
    check_page("commands.md", &format!("{head}{}", describe(&[], &batch)));
}

/// The table of one group of settings.
fn table(title: &str, settings: &[&Setting]) -> String {
    let code = |text: &String| format!("`{text}`");
    let rows = settings.iter().map(|setting| {
        let values: Vec<String> = setting.values.iter().map(code).collect();
        let default = setting.default.as_ref().map_or("—".to_owned(), code);
        let help = setting.help.replace('|', "\\|");
        let (name, flag, values) = (&setting.name, &setting.flag, values.join(", "));
        format!("| `{name}` | `{flag}` | {values} | {default} | {help}. |\n")
    });
    let rows: String = rows.collect();
    format!(
        "\n## {title}\n\n| variable | flag | value | default | means |\n|---|---|---|---|---|\n{rows}"
    )
}

#[test]
fn the_page_of_settings_is_what_the_programs_declare() {
    let settings = engine::settings::all();
    let mut groups: Vec<Option<&str>> = vec![];
    for setting in &settings {
        if !groups.contains(&setting.group.as_deref()) {
            groups.push(setting.group.as_deref());
        }
    }
    let tables = groups.into_iter().map(|group| {
        let of_group = settings.iter().filter(|setting| setting.group.as_deref() == group);
        table(group.unwrap_or("Server"), &of_group.collect::<Vec<_>>())
    });
    let tables: String = tables.collect();
    let head = "<!--
A test writes this page from the declarations of the settings: edit engine/src/settings/, not the page.
-->

# Settings

Each setting is an environment variable, and a flag of the commands that use it.
A flag takes precedence over its variable.
A program does not start if a variable that begins with `LAUREL_` is unknown, so a misspelled setting is never ignored.
[Commands](commands.md) has the flags of each command.
";
    check_page("settings.md", &format!("{head}{tables}"));
}

#[test]
fn the_page_of_errors_has_every_code_once() {
    let schema = fs::read_to_string(program::root().join("schema.graphql")).unwrap();
    let (_, after) = schema.split_once("enum ErrorCode {").unwrap();
    let (values, _) = after.split_once("\n}").unwrap();
    let is_code = |text: &str| text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let codes: Vec<&str> =
        values.lines().map(str::trim).filter(|line| !line.is_empty() && is_code(line)).collect();
    let text = page("errors.md");
    let headings: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let sorted =
        |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&headings), sorted(&codes), "docs/reference/errors.md");
    assert_eq!(headings.len(), codes.len(), "docs/reference/errors.md has a heading twice");
}
