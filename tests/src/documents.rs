//! GraphQL documents that several tests send.

pub const CREATE_BOARD: &str = "
    mutation($input: CreateBoardInput!) { createBoard(input: $input) { board {
        id slug tieBreakResolutionMs segmentBy selfSubmit opensAt closesAt maxLatenessSeconds
        windows { name kind ready retain current { label start end nextResetAt sealed } }
    } } }";

pub const UPDATE_BOARD: &str = "
    mutation($input: UpdateBoardInput!) { updateBoard(input: $input) { board {
        id slug title maxLatenessSeconds windows { name ready retain }
    } } }";

pub const ADD_SEASON: &str = "
    mutation($input: AddSeasonInput!) { addSeason(input: $input) {
        board { slug } season { name startsAt endsAt ready }
    } }";

pub const REMOVE_SEASON: &str = "
    mutation($input: RemoveSeasonInput!) { removeSeason(input: $input) {
        removed board { seasons { name } }
    } }";

pub const SEASONS: &str = "
    query($slug: String!) { board(slug: $slug) { seasons { name startsAt endsAt ready } } }";

pub const DELETE_BOARD: &str =
    "mutation($slug: String!) { deleteBoard(input: { slug: $slug }) { deletedBoardId } }";

pub const SUBMIT_SCORES: &str = "
    mutation($board: String!, $scores: [ScoreInput!]!, $ack: Durability!) {
        submitScores(input: { board: $board, scores: $scores, ack: $ack }) {
            accepted duplicates rejected results { member status error { code message argument } }
        }
    }";

pub const REMOVE_ENTRY: &str = "
    mutation($board: String!, $member: String!) { removeEntry(
        input: { board: $board, member: $member }
    ) {
        removed board { slug } member { key }
    } }";

pub const REMOVE_ENTRIES: &str = "
    mutation($input: RemoveEntriesInput!) { removeEntries(input: $input) {
        removed matched members { key } deletedEntryIds endCursor hasMore
    } }";

pub const RESET_BOARD: &str = "
    mutation($input: ResetBoardInput!) { resetBoard(input: $input) { removed endCursor hasMore } }";

pub const RESET_PERIOD: &str = "
    mutation($input: ResetPeriodInput!) { resetPeriod(input: $input) {
        standings { window { name } period { label } size } voided endCursor hasMore
    } }";

pub const MERGE_MEMBERS: &str = "
    mutation($source: String!, $target: String!) { mergeMembers(
        input: { source: $source, target: $target }
    ) {
        merged source { key mergedInto { key } } target { key mergedInto { key } }
    } }";

pub const ERASE_MEMBER: &str = "mutation($member: String!) {
    eraseMember(input: { member: $member }) {
        erased waitsForFiles receipt { id step startedAt erasedAt salt hash counts }
    } }";

pub const VOID_EVENT: &str = "mutation($id: ID!) { voidEvent(input: { id: $id }) {
        voided event { id voided } entry { score }
    } }";

pub const UPSERT_MEMBERS: &str = "
    mutation($members: [MemberInput!]!) { upsertMembers(input: { members: $members }) {
        members { key name region }
    } }";

pub const ADD_FRIEND: &str = "
    mutation($member: String!, $friend: String!) {
        change: addFriend(input: { member: $member, friend: $friend }) {
            member { key } friend { key }
        }
    }";

pub const REMOVE_FRIEND: &str = "
    mutation($member: String!, $friend: String!) {
        change: removeFriend(input: { member: $member, friend: $friend }) {
            member { key } friend { key }
        }
    }";

pub const SET_VISIBILITY: &str = "
    mutation($member: String!, $visibility: MemberVisibility!) {
        setVisibility(input: { member: $member, visibility: $visibility }) {
            member { visibility }
        }
    }";

pub const NODE: &str = "query($id: ID!) { node(id: $id) { id } }";

/// A member's score of all time on a board.
pub const SCORE: &str = "
    query($board: String!, $member: String!) { board(slug: $board) { standings {
        entry(member: $member) { score }
    } } }";

/// A member's events on a board, page by page.
pub const MEMBER_EVENTS: &str = "
    query(
        $member: String!, $board: String!,
        $first: Int, $after: String, $last: Int, $before: String
    ) { member(key: $member) {
        events(board: $board, first: $first, after: $after, last: $last, before: $before) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes {
                id kind score at acceptedAt eventId metadata voided voids board { slug } member { key }
            }
        }
    } }";

/// A member among its friends, page by page.
pub const RANKED_FRIENDS: &str = "
    query(
        $slug: String!, $window: String!, $period: String, $member: String!,
        $first: Int, $after: String, $own: Boolean, $missing: Boolean
    ) { board(slug: $slug) { standings(of: { window: $window, period: $period }) {
        friends(
            member: $member, first: $first, after: $after,
            includeSelf: $own, includeMissing: $missing
        ) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            edges { cursor node { position } }
            nodes {
                position isSelf member { key }
                entry { rank competition: rank(method: COMPETITION) score member { key } }
            }
        }
    } } }";

/// The periods of a window that have entries, page by page.
pub const PERIODS: &str = "
    query(
        $slug: String!, $window: String!,
        $first: Int, $after: String, $last: Int, $before: String
    ) { board(slug: $slug) {
        periods(window: $window, first: $first, after: $after, last: $last, before: $before) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes { label start end sealed }
        }
    } }";

pub const SUBMIT_FROM_SOURCE: &str = "mutation($input: SubmitScoresInput!) {
    submitScores(input: $input) { results { status error { code message argument } } } }";
