//! The page of a report: self-contained HTML, with the figures as JSON inside.

use anyhow::Result;

use super::charts;
use super::figures::Figures;
use super::labels::grouped;

const STYLE: &str = "
:root { color-scheme: light; --ink: #2b3338; --faint: #66737b; --line: #e2e6e8; --green: #2f7956 }
* { box-sizing: border-box }
body { margin: 0; background: #f4f6f5; color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 48px }
h1 { margin: 0; font-size: 30px; line-height: 1.2; overflow-wrap: anywhere }
h2 { margin: 0 0 2px; font-size: 18px }
p { margin: 0 } .faint { color: var(--faint) }
header p { margin-top: 6px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 22px 0 }
.tile, section { background: #fff; border: 1px solid var(--line); border-radius: 10px }
.tile { padding: 12px 16px } .tile b { display: block; font-size: 23px; line-height: 1.25; overflow-wrap: anywhere }
section { padding: 18px 20px; margin-top: 16px; break-inside: avoid }
section svg { display: block; width: 100%; height: auto; margin-top: 12px }
table { border-collapse: collapse; width: 100%; margin-top: 10px; font-variant-numeric: tabular-nums }
th, td { padding: 5px 10px; text-align: right; border-top: 1px solid var(--line) } th { border: 0; font-weight: 600; color: var(--faint) }
th:nth-child(2), td:nth-child(2) { text-align: left; width: 60%; overflow-wrap: anywhere }
footer { margin-top: 20px; font-size: 13px }
@media print { body { background: #fff } main { padding: 0 } }
";

/// The page that shows the figures.
///
/// # Errors
/// If a picture cannot be drawn.
pub(crate) fn page(figures: &Figures) -> Result<String> {
    let title = escaped(&figures.title);
    let has_ties = figures.ties.members > 0;
    let ties = if has_ties { charts::ties(figures) } else { Ok(String::new()) };
    let sections = [
        leaders(figures),
        section("Scores", &scores_text(figures), &charts::distribution(figures)?),
        section("Activity", &activity_text(figures), &charts::activity(figures)?),
        section("Growth", &growth_text(figures), &charts::growth(figures)?),
        section(
            "How the top moved",
            "The ranks of the present leaders over time, by the scores earned up to then. The first ten ranks have most of the room.",
            &charts::movement(figures)?,
        ),
        section("Ties", &ties_text(figures), &ties?),
        section("The top 1 %", &share_text(figures), &charts::share(figures)?),
    ];
    // Within a script element, only '<' could end it.
    let json = serde_json::to_string(figures)?.replace('<', "\\u003c");
    Ok(format!(
        "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{header}
{sections}
<footer class=\"faint\">Made by Laurel at {made_at}. Voided and removed events do not count. All times are those at which scores were earned, in {zone}.</footer>
</main>
<script type=\"application/json\" id=\"figures\">{json}</script>
</body>
</html>
",
        header = header(figures, &title),
        sections = sections.join("\n"),
        made_at = escaped(&figures.made_at),
        zone = escaped(&figures.time_zone),
    ))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn count(count: usize) -> String {
    grouped(&count.to_string())
}

fn header(figures: &Figures, title: &str) -> String {
    let tile = |name: &str, value: &str| {
        format!("<div class=\"tile\"><b>{value}</b><span class=\"faint\">{name}</span></div>")
    };
    let periods = &figures.activity.periods;
    let span = match (periods.first(), periods.last()) {
        (Some(first), Some(last)) => format!("{} to {}", first.period, last.period),
        _ => String::new(),
    };
    let share = match figures.share.scores {
        Some(share) => tile("of all points, by the top 1 %", &percentage(share)),
        None => tile("of all events, by the most active 1 %", &percentage(figures.share.events)),
    };
    let tiles = [
        tile("members", &count(figures.members)),
        tile("events", &count(figures.events)),
        tile("median score", &grouped(&figures.scores.median)),
        tile("share their score", &count(figures.ties.members)),
        share,
    ];
    format!(
        "<header><h1>{title}</h1>
<p class=\"faint\">board {slug} · {policy} · {direction} · ties by {ties} · {span}</p></header>
<div class=\"tiles\">{tiles}</div>",
        slug = escaped(&figures.slug),
        policy = figures.policy,
        direction = figures.direction,
        ties = figures.tie_break,
        span = escaped(&span),
        tiles = tiles.join(""),
    )
}

fn section(title: &str, text: &str, picture: &str) -> String {
    format!("<section><h2>{title}</h2><p class=\"faint\">{text}</p>{picture}</section>")
}

fn leaders(figures: &Figures) -> String {
    let row = |placed: &super::figures::MemberMove| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            placed.rank,
            escaped(&placed.member),
            grouped(&placed.score),
            count(placed.events)
        )
    };
    let rows: String = figures.top.iter().map(row).collect();
    let table = format!(
        "<table><tr><th>rank</th><th>member</th><th>score</th><th>events</th></tr>{rows}</table>"
    );
    section("The top", "All time, everyone.", &table)
}

fn scores_text(figures: &Figures) -> String {
    let scores = &figures.scores;
    let widths = if scores.buckets_grow {
        "Each bar is wider in points than the one before it, by about the same factor."
    } else {
        "All bars are equally wide in points."
    };
    format!(
        "From {} to {}; half of the members have {} or more. {widths}",
        grouped(&scores.lowest),
        grouped(&scores.highest),
        grouped(&scores.median)
    )
}

fn activity_text(figures: &Figures) -> String {
    let periods = &figures.activity.periods;
    // Of several equally busy periods, the first.
    let busiest = periods.iter().rev().max_by_key(|period| period.events);
    let busiest = busiest.map_or_else(String::new, |busiest| {
        format!(" The busiest was {}, with {}.", busiest.period, count(busiest.events))
    });
    // A sentence begins with a capital letter.
    let (first, rest) = figures.activity.window.split_at(1);
    format!("{}{rest} events.{busiest}", first.to_uppercase())
}

fn growth_text(figures: &Figures) -> String {
    format!(
        "Members with a score so far, and those with an event in the period, {}.",
        figures.activity.window
    )
}

fn ties_text(figures: &Figures) -> String {
    let ties = &figures.ties;
    if ties.members == 0 {
        return "No two members have the same score.".to_owned();
    }
    format!(
        "{} of {} members share their score with another member; {} scores have several members. For {} members, only their names break the tie.",
        count(ties.members),
        count(figures.members),
        count(ties.scores),
        count(ties.by_name)
    )
}

fn share_text(figures: &Figures) -> String {
    let share = &figures.share;
    let who = match share.members {
        1 => "one member".to_owned(),
        members => format!("{} members", count(members)),
    };
    let events = format!("the most active 1 % sent {} of all events", percentage(share.events));
    match share.scores {
        Some(scores) => format!(
            "The top 1 % ({who}) have {} of all points, and {events}. The gray line shows equal shares for all.",
            percentage(scores)
        ),
        None => format!(
            "Of 1 % ({who}): {events}. Points do not add up on this board, so their shares are left out. The gray line shows equal shares for all."
        ),
    }
}

fn percentage(value: f64) -> String {
    format!("{value:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_are_called_is_text() {
        assert_eq!(escaped("<b>&\"'"), "&lt;b&gt;&amp;&quot;&#39;");
    }
}
