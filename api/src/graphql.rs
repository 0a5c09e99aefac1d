//! The GraphQL schema, one file per noun.

pub mod audit;
pub mod board;
pub(crate) mod change;
pub mod event;
pub(crate) mod guard;
pub mod integrity;
pub mod job;
pub mod member;
pub mod mutation;
pub mod partition;
pub(crate) mod price;
pub mod query;
pub mod request;
pub(crate) mod sight;
pub mod standings;
pub mod submission;
pub mod subscription;
pub mod token;
pub(crate) mod types;
pub mod webhook;

use async_graphql::connection::EmptyFields;
use async_graphql::{SDLExportOptions, Schema, SchemaBuilder, ValidationMode};

use engine::settings::Introspection;

use crate::app::SharedApp;
use audit::AuditEntry;
use board::Board;
use board::list::BoardTotal;
use event::{EventTotal, ScoreEvent};
use integrity::{Finding, FindingTotal, IntegrityRun, IntegrityRunTotal};
use job::{Job, JobTotal};
use member::Member;
use member::boards::MemberBoards;
use member::erasure::ErasureReceipt;
use member::friend::{FriendEntry, FriendTotal};
use member::quarantine::QuarantinedScore;
use member::report::MemberReport;
use member::search::MemberTotal;
use mutation::Mutation;
use partition::Partition;
use query::Query;
use standings::Standings;
use standings::period::{Period, PeriodTotal};
use subscription::Subscription;
use token::AccessToken;
use types::connection::Connection;
use webhook::Webhook;

/// Laurel's schema.
pub type LaurelSchema = Schema<Query, Mutation, Subscription>;

/// The description of the schema. async-graphql has none of its own.
pub const DESCRIPTION: &str = "Laurel, a leaderboard service. Scores go in by `submitScores`; \
    ranks, pages, neighbors and friends come out of the standings of a board.";

/// The schema as text, as `laurel schema` prints it.
pub fn sdl() -> String {
    let described = format!("\"\"\"\n{DESCRIPTION}\n\"\"\"\nschema {{");
    definitions().replace("\nschema {", &format!("\n{described}"))
}

/// The schema as text without its description, which the parser of async-graphql does not read.
pub fn definitions() -> String {
    let schema = builder().finish();
    schema.sdl_with_options(SDLExportOptions::new().include_specified_by())
}

/// The executable schemas. The limits of requests are checked before they see them.
pub struct Schemas {
    /// Checks every document by all rules of the specification.
    pub checking: LaurelSchema,
    /// Executes documents that the other one has found valid, and spares them most rules.
    pub trusting: LaurelSchema,
}

impl Schemas {
    /// The schemas of an application. Where not every client may ask for the schema, no error
    /// suggests a name of it.
    pub fn new(app: &SharedApp, introspection: Introspection) -> Self {
        let of = |mode| {
            let schema = builder().validation_mode(mode).data(app.clone());
            match introspection {
                Introspection::All => schema.finish(),
                Introspection::Tokens | Introspection::Off => schema.disable_suggestions().finish(),
            }
        };
        Self { checking: of(ValidationMode::Strict), trusting: of(ValidationMode::Fast) }
    }
}

/// The schema to be. async-graphql's connections describe their fields, but not themselves.
fn builder() -> SchemaBuilder<Query, Mutation, Subscription> {
    Schema::build(Query, Mutation::default(), Subscription)
        .override_output_type_description::<Connection<AccessToken, EmptyFields>>(
            "A page of access tokens.",
        )
        .override_output_type_description::<Connection<AuditEntry, EmptyFields>>(
            "A page of the audit log.",
        )
        .override_output_type_description::<Connection<Board, BoardTotal>>("A page of boards.")
        .override_output_type_description::<Connection<ErasureReceipt, EmptyFields>>(
            "A page of the receipts of erasures.",
        )
        .override_output_type_description::<Connection<Finding, FindingTotal>>(
            "A page of the findings of a run.",
        )
        .override_output_type_description::<Connection<FriendEntry, FriendTotal>>(
            "A page of a member's friends in standings.",
        )
        .override_output_type_description::<Connection<IntegrityRun, IntegrityRunTotal>>(
            "A page of runs of the integrity diff.",
        )
        .override_output_type_description::<Connection<Job, JobTotal>>("A page of jobs.")
        .override_output_type_description::<Connection<Partition, EmptyFields>>(
            "A page of partitions.",
        )
        .override_output_type_description::<Connection<Member, MemberTotal>>("A page of members.")
        .override_output_type_description::<Connection<MemberReport, EmptyFields>>(
            "A page of reports of members.",
        )
        .override_output_type_description::<MemberBoards>("A page of the boards of a member.")
        .override_output_type_description::<Connection<Period, PeriodTotal>>(
            "A page of the periods of a window.",
        )
        .override_output_type_description::<Connection<QuarantinedScore, EmptyFields>>(
            "A page of scores in quarantine.",
        )
        .override_output_type_description::<Connection<ScoreEvent, EventTotal>>(
            "A page of a member's events on a board.",
        )
        .override_output_type_description::<Connection<Standings, EmptyFields>>(
            "A page of the standings of segments.",
        )
        .override_output_type_description::<Connection<Webhook, EmptyFields>>("A page of webhooks.")
}
