// The documents that apollo.js and graphcache.js send: lists by pages, and a home screen that asks for a bit of everything.

import { parse } from 'graphql';

const LIST = `
  fragment List on Standings {
    id
    size
    top(first: $first, after: $after) {
      edges {
        cursor
        node {
          id
          rank
          score
          member {
            id
            key
          }
        }
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
`;

export const LEADERS = parse(`
  query Leaders($board: String!, $first: Int!, $after: String) {
    board(slug: $board) {
      id
      title
      standings {
        ...List
      }
    }
  }
  ${LIST}
`);

export const ENTRY = parse(`
  query Entry($id: ID!) {
    node(id: $id) {
      id
      ... on Entry {
        rank
        score
        member {
          id
          key
        }
      }
    }
  }
`);

export const SUBMIT = parse(`
  mutation Submit($input: SubmitScoresInput!) {
    submitScores(input: $input) {
      results {
        status
        event {
          id
          at
        }
        previous {
          rank
          score
        }
        entry {
          id
          rank
          score
        }
      }
    }
  }
`);

export const REMOVE = parse(`
  mutation Remove($input: RemoveEntryInput!, $first: Int!, $after: String) {
    removeEntry(input: $input) {
      removed
      deletedEntryId
      board {
        id
        standings {
          ...List
        }
      }
    }
  }
  ${LIST}
`);

/** Asked twice with other fields of the same objects, which a cache must put together. */
export const HOME = parse(`
  query Home($board: String!, $member: String!) {
    viewer {
      scopes
    }
    boards(first: 2) {
      edges {
        node {
          id
          slug
        }
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
    member(key: $member) {
      id
      name
      friends(first: 2) {
        edges {
          node {
            id
            key
          }
        }
        pageInfo {
          hasNextPage
          endCursor
        }
      }
      entry(board: $board) {
        id
        rank
      }
      events(board: $board) {
        edges {
          node {
            id
            score
          }
        }
        pageInfo {
          hasNextPage
          endCursor
        }
      }
    }
    board(slug: $board) {
      id
      windows {
        id
        name
        current {
          id
          label
        }
      }
      periods(window: "daily") {
        edges {
          node {
            id
            label
          }
        }
        pageInfo {
          hasNextPage
          endCursor
        }
      }
      standings(of: { window: "daily" }) {
        id
        friends(member: $member, includeSelf: true) {
          edges {
            node {
              id
              position
              entry {
                id
                rank
              }
            }
          }
          pageInfo {
            hasNextPage
            endCursor
          }
        }
        neighbors(member: $member) {
          id
          rank
        }
        distribution(buckets: 3) {
          lower
          upper
          count
        }
      }
    }
  }
`);

export const HOME_AGAIN = parse(`
  query HomeAgain($board: String!, $member: String!) {
    viewer {
      member {
        id
      }
    }
    boards(first: 2) {
      edges {
        cursor
        node {
          id
          title
        }
      }
      pageInfo {
        hasPreviousPage
      }
    }
    member(key: $member) {
      id
      key
      region
      friends(first: 2) {
        edges {
          node {
            id
            name
          }
        }
        pageInfo {
          hasPreviousPage
        }
      }
      entry(board: $board) {
        id
        score
        next {
          id
          rank
          score
        }
      }
      events(board: $board) {
        edges {
          node {
            id
            kind
          }
        }
      }
    }
    board(slug: $board) {
      id
      slug
      windows {
        id
        kind
        current {
          id
          start
          end
        }
      }
      periods(window: "daily") {
        edges {
          node {
            id
            sealed
          }
        }
      }
      standings(of: { window: "daily" }) {
        id
        source
        friends(member: $member, includeSelf: true) {
          edges {
            node {
              id
              isSelf
              member {
                id
              }
              entry {
                id
                score
              }
            }
          }
        }
        neighbors(member: $member) {
          id
          score
        }
        distribution(buckets: 3) {
          lower
          upper
          count
        }
      }
    }
  }
`);
