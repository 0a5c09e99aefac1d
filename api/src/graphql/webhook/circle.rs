//! The circle of a webhook: the entries among which it hears of members who were overtaken.

use async_graphql::{Context, InputObject, SimpleObject};
use engine::read::choice::{Choice, PeriodChoice, Unreadable};
use entity::webhook::circle::{self, Circle, Extent, GROUP_MAX, TOP_MAX};
use entity::webhook::{Kind, Model};
use ranking::shown;

use crate::error::{Error, Result};
use crate::graphql::request::{app, state};
use crate::graphql::standings::member_ids;

/// The fewest members of a group, as one overtakes another.
const GROUP_MIN: usize = 2;

/// A circle of standings. Its entries are `top` or `members`.
#[derive(InputObject)]
pub struct OvertakenInput {
    /// The name of the window, whose present period counts.
    #[graphql(default_with = "Some(\"all\".to_owned())")]
    window: Option<String>,
    /// The segment, such as "region:eu"; everyone by default.
    segment: Option<String>,
    /// The number of the first entries: 1 to 100.
    top: Option<i32>,
    /// The keys of a group: 2 to 1,000 of them. A member may have no entry yet.
    members: Option<Vec<String>>,
}

/// The circle of a webhook that asks for `OVERTAKEN`.
#[derive(SimpleObject)]
pub struct WebhookCircle {
    /// The name of the window, whose present period counts.
    window: String,
    /// The segment; null for everyone.
    segment: Option<String>,
    /// The number of the first entries; null for a group.
    top: Option<u32>,
    /// The keys of the group; null for the first entries.
    members: Option<Vec<String>>,
}

impl From<Circle> for WebhookCircle {
    fn from(circle: Circle) -> Self {
        let (top, members) = match circle.extent {
            Extent::Top(top) => (Some(top), None),
            Extent::Group(members) => (None, Some(members)),
        };
        let segment = Some(circle.segment).filter(|segment| !segment.is_empty());
        Self { window: circle.window, segment, top, members }
    }
}

/// The circle that a webhook is to have: the one that a client gives, or the one of `before`, which
/// is the webhook as it was.
pub(super) async fn chosen(
    ctx: &Context<'_>,
    row: &Model,
    given: Option<OvertakenInput>,
    before: Option<&Model>,
) -> Result<Option<Circle>> {
    if !row.asks_for(Kind::Overtaken) {
        let message = "overtaken is given: expected OVERTAKEN among the events";
        let refused = || Error::bad_input(message).at("input.events");
        return given.map_or(Ok(None), |_| Err(refused()));
    }
    let Some(board_no) = row.board_no else {
        let message = "OVERTAKEN is told of one board: expected its slug";
        return Err(Error::bad_input(message).at("input.board"));
    };
    let before = before.filter(|before| before.asks_for(Kind::Overtaken));
    let former = match before {
        Some(_) => circle::of(&app(ctx).deployment.db, &row.id).await?,
        None => None,
    };
    let is_same_board = before.is_some_and(|before| before.board_no == row.board_no);
    let circle = match (given, former) {
        // Its board may be gone, and the circle with it.
        (None, former) if is_same_board => return Ok(former),
        (Some(given), _) => given.circle(board_no)?,
        (None, Some(former)) => Circle { board_no, ..former },
        (None, None) => {
            let message = "OVERTAKEN is among the events: expected the circle in which it is told, as overtaken: { top: 100 }";
            return Err(Error::bad_input(message).at("input.overtaken"));
        }
    };
    check(ctx, &circle).await?;
    Ok(Some(circle))
}

impl OvertakenInput {
    fn circle(self, board_no: i64) -> Result<Circle> {
        let extent = match (self.top, self.members) {
            (Some(top), None) => {
                let top = u32::try_from(top).ok().filter(|top| (1..=TOP_MAX).contains(top));
                Extent::Top(top.ok_or_else(|| {
                    let message = format!("invalid top: expected 1 to {TOP_MAX}");
                    Error::bad_input(message).at("input.overtaken.top")
                })?)
            }
            (None, Some(mut members)) => {
                member_ids("input.overtaken.members", &members)?;
                members.sort_unstable();
                members.dedup();
                if !(GROUP_MIN..=GROUP_MAX).contains(&members.len()) {
                    let message = format!(
                        "invalid members: expected {GROUP_MIN} to {GROUP_MAX} different keys"
                    );
                    return Err(Error::bad_input(message).at("input.overtaken.members"));
                }
                Extent::Group(members)
            }
            _ => {
                let message = "invalid circle: expected one of top and members";
                return Err(Error::bad_input(message).at("input.overtaken"));
            }
        };
        let window = self.window.unwrap_or_else(|| "all".to_owned());
        Ok(Circle { board_no, window, segment: self.segment.unwrap_or_default(), extent })
    }
}

/// Checks that a board has the standings of a circle, and all of their entries.
async fn check(ctx: &Context<'_>, circle: &Circle) -> Result<()> {
    let boards = state(ctx).loaders.boards([circle.board_no].into()).await?;
    let Some(board) = boards.get(&circle.board_no) else {
        let message = "the board of the webhook is deleted: expected the slug of another one";
        return Err(Error::bad_input(message).at("input.board"));
    };
    let (board, slug, attributes) = (&board.board, &board.row.slug, &board.segment_by);
    let no_window = || Unreadable::no_window(board, slug, &shown(&circle.window));
    let at_window = |error: Unreadable| Error::from(error).at("input.overtaken.window");
    let window = circle.window.parse().map_err(|_| at_window(no_window()))?;
    let now_ms = app(ctx).deployment.clock.now_ms();
    let choice = Choice { window, period: PeriodChoice::Any, segment: circle.segment.clone() };
    choice.resolve(board, slug, attributes, now_ms).map(drop).map_err(|unreadable| match unreadable
    {
        Unreadable::Invalid(error) => Error::from(error).at("input.overtaken.segment"),
        error => at_window(error),
    })
}
