//! GraphQL documents that several tests send.

pub const CREATE_BOARD: &str = "
    mutation($input: CreateBoardInput!) { createBoard(input: $input) { board {
        id slug tieBreakResolutionMs segmentBy selfSubmit opensAt closesAt latenessMaxSeconds
        windows { name kind ready retain current { label start end nextResetAt sealed } }
    } } }";

pub const UPDATE_BOARD: &str = "
    mutation($input: UpdateBoardInput!) { updateBoard(input: $input) { board {
        id slug title latenessMaxSeconds windows { name ready retain }
    } } }";

pub const DELETE_BOARD: &str =
    "mutation($slug: String!) { deleteBoard(slug: $slug) { deletedBoardId } }";

pub const SUBMIT_SCORES: &str = "
    mutation($board: String!, $scores: [ScoreInput!]!, $ack: Ack!) {
        submitScores(input: { board: $board, scores: $scores, ack: $ack }) {
            accepted duplicates rejected results { member status error { code message } }
        }
    }";

pub const REMOVE_ENTRY: &str = "
    mutation($board: String!, $member: String!) { removeEntry(board: $board, member: $member) {
        removed board { slug } member { key }
    } }";

pub const VOID_EVENT: &str =
    "mutation($id: ID!) { voidEvent(id: $id) { voided event { id voided } entry { score } } }";

pub const UPSERT_MEMBERS: &str = "
    mutation($input: [MemberInput!]!) { upsertMembers(input: $input) {
        members { key name region }
    } }";

pub const ADD_FRIEND: &str = "
    mutation($member: String!, $friend: String!) {
        change: addFriend(member: $member, friend: $friend) { member { key } friend { key } }
    }";

pub const REMOVE_FRIEND: &str = "
    mutation($member: String!, $friend: String!) {
        change: removeFriend(member: $member, friend: $friend) { member { key } friend { key } }
    }";

pub const NODE: &str = "query($id: ID!) { node(id: $id) { id } }";

/// A member's score of all time on a board.
pub const SCORE: &str = "
    query($board: String!, $member: String!) { board(slug: $board) { standings {
        rank(member: $member) { score }
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
                id kind score at acceptedAt eventId voided voids board { slug } member { key }
            }
        }
    } }";

/// A member among its friends, page by page.
pub const RANKED_FRIENDS: &str = "
    query(
        $slug: String!, $window: String!, $period: String, $member: String!,
        $first: Int, $after: String, $own: Boolean, $missing: Boolean
    ) { board(slug: $slug) { standings(window: $window, period: $period) {
        friends(
            member: $member, first: $first, after: $after,
            includeSelf: $own, includeMissing: $missing
        ) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            edges { cursor node { position } } missing { key }
            nodes {
                position isSelf
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
