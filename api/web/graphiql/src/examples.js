// The tabs of a first visit: queries of the demo boards, then mutations that fill a new board.

export const examples = [
  {
    query: `# Every board and its leader.
# Ctrl-Enter runs this. The book on the left
# has the manual of every field.
query Boards {
  boards {
    totalCount
    nodes {
      slug
      title
      policy
      tieBreak
      windows {
        name
      }
      standings {
        size
        top(first: 1) {
          nodes {
            score
            member {
              key
            }
          }
        }
      }
    }
  }
}
`,
  },
  {
    query: `# The first ten of all time. For the next page
# pass endCursor as "after", below.
query TopTen($board: String!, $after: String) {
  board(slug: $board) {
    title
    standings {
      size
      top(first: 10, after: $after) {
        nodes {
          rank
          score
          reachedAt
          member {
            key
          }
        }
        pageInfo {
          endCursor
          hasNextPage
        }
      }
    }
  }
}
`,
    variables: `{
  "board": "rust-analyzer"
}`,
  },
  {
    query: `# The neighbors of a member in the ranking.
query Neighbors($member: String!) {
  board(slug: "redis") {
    standings {
      entry(member: $member) {
        rank
        score
        percentile
      }
      neighbors(member: $member, above: 3, below: 3) {
        rank
        score
        member {
          key
        }
      }
    }
  }
}
`,
    variables: `{
  "member": "dev-1b9409ee7e"
}`,
  },
  {
    query: `# One month, by its label. Instead of
# "period", "at" takes any instant in it.
query OneMonth {
  board(slug: "redis") {
    standings(of: { window: "monthly", period: "2024-09" }) {
      period {
        label
        start
        end
      }
      size
      top(first: 10) {
        nodes {
          rank
          score
          member {
            key
          }
        }
      }
    }
  }
}
`,
  },
  {
    query: `# Needs an access token with scope admin,
# in the box above.
mutation CreateBoard {
  createBoard(
    input: {
      slug: "chess"
      title: "Chess club"
      timeZone: "Europe/Berlin"
      windows: [{ name: "daily" }, { name: "weekly" }]
    }
  ) {
    board {
      id
      slug
      windows {
        name
      }
    }
  }
}
`,
  },
  {
    query: `# Needs an access token with scope submit or
# admin. Scores with an eventId are safe to
# send again: run it twice.
mutation SubmitScores($scores: [ScoreInput!]!) {
  submitScores(input: { board: "chess", scores: $scores }) {
    accepted
    duplicates
    rejected
    results {
      member
      status
      entry {
        rank
        score
      }
      error {
        code
        message
      }
    }
  }
}
`,
    variables: `{
  "scores": [
    { "member": "ann", "score": 30, "eventId": "game-1-ann" },
    { "member": "bob", "score": 20, "eventId": "game-1-bob" }
  ]
}`,
  },
];
