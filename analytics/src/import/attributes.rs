//! The attributes of the members of a file: those that SQL has, and the regions that the file
//! brings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use engine::deployment::Deployment;
use entity::member;
use ranking::attribute::{Attributes, REGION, segments_of};
use ranking::id::BoardNo;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;

use super::MEMBERS_MAX;
use super::rows::Row;

/// Sets the segments that rows count in, on boards that have some: those of the attributes of the
/// member, with the row's own region in place of the member's.
pub(super) async fn set_segments(
    deployment: &Deployment,
    rows: &mut [Row],
    segmented: &HashMap<BoardNo, Vec<String>>,
) -> Result<()> {
    let asked = rows.iter().filter(|row| segmented.contains_key(&row.submission.board.no));
    let asked = asked.map(|row| row.submission.member.as_str()).collect();
    let known = known_attributes(deployment, asked).await?;
    for row in rows {
        let Some(segment_by) = segmented.get(&row.submission.board.no) else { continue };
        let of_member = known.get(row.submission.member.as_str());
        row.submission.segments = segments(segment_by, row.region.as_ref(), of_member);
    }
    Ok(())
}

/// The attributes that SQL has of members.
pub(super) async fn known_attributes(
    deployment: &Deployment,
    members: BTreeSet<&str>,
) -> Result<HashMap<String, Attributes>> {
    let members: Vec<&str> = members.into_iter().collect();
    let mut known = HashMap::new();
    for chunk in members.chunks(MEMBERS_MAX) {
        known.extend(member::attributes(&deployment.db, chunk).await?);
    }
    Ok(known)
}

/// The segments of a row: its own region stands in place of the member's.
pub(super) fn segments(
    segment_by: &[String],
    region: Option<&String>,
    of_member: Option<&Attributes>,
) -> Vec<String> {
    segments_of(segment_by, |name| {
        region.filter(|_| name == REGION).or_else(|| of_member?.get(name))
    })
}

/// Writes the region of each member from its last row in the file, and creates new members.
pub(super) async fn write_regions(
    deployment: &Deployment,
    rows: &[Row],
    refused: &BTreeMap<usize, String>,
) -> Result<()> {
    let taken = rows.iter().enumerate().filter(|(index, _)| !refused.contains_key(index));
    let regions: BTreeMap<String, String> = taken
        .filter_map(|(_, row)| Some((row.submission.member.to_string(), row.region.clone()?)))
        .collect();
    let row = |(key, region): (String, String)| member::ActiveModel {
        key: Set(key),
        name: Set(None),
        name_folded: Set(None),
        region: Set(Some(region)),
        created_at_ms: Set(deployment.clock.now_ms()),
        avatar_url: Set(None),
        attributes: Set(None),
    };
    let replace =
        OnConflict::column(member::Column::Key).update_column(member::Column::Region).to_owned();
    entity::sql::insert_chunked::<member::Entity, _>(
        &deployment.db,
        regions.into_iter().map(row).collect(),
        Some(replace),
    )
    .await?;
    Ok(())
}
