using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Laurel
{
    /// <summary>
    /// Calls of a server. Each is one request, which is not repeated: <see cref="ScoreQueue"/>
    /// repeats. A call throws LaurelException, and goes on in the caller's context, which in Unity
    /// is the main thread: await it, as waiting for its Result would block that thread for good.
    /// </summary>
    public sealed class LaurelClient
    {
        /// <summary>The most scores of a request.</summary>
        public const int ScoresMax = 1000;

        /// <summary>The most bytes of the body of a request, as the server has it by default.</summary>
        public const int RequestBytesMax = 512 * 1024;

        /// <summary>The most bytes that are read of an answer.</summary>
        public const int AnswerBytesMax = 4 * 1024 * 1024;

        private const string Submit =
            "mutation Submit($input: SubmitScoresInput!) { submitScores(input: $input) { results { "
            + "member status entry " + Entry.Selection
            + " error { code message argument mergedInto } } } }";

        private const string Standings =
            "$board: String!, $of: StandingsOf) { board(slug: $board) { standings(of: $of) { ";

        private const string Top = "query Top($first: Int!, $after: String, " + Standings
            + "top(first: $first, after: $after) { nodes " + Entry.Selection + Page<Entry>.Selection
            + " } } } }";

        private const string OneEntry = "query Entry($member: String!, " + Standings
            + "entry(member: $member) " + Entry.Selection + " } } }";

        private const string Neighbors =
            "query Neighbors($member: String!, $above: Int!, $below: Int!, " + Standings
            + "neighbors(member: $member, above: $above, below: $below) " + Entry.Selection
            + " } } }";

        private const string Friends =
            "query Friends($member: String!, $first: Int!, $after: String, " + Standings
            + "friends(member: $member, first: $first, after: $after, includeMissing: true) { nodes "
            + Friend.Selection + Page<Friend>.Selection + " } } } }";

        private readonly Uri url;
        private readonly ITransport transport;

        /// <summary>
        /// Makes a client of the server at an address such as https://scores.example, with a
        /// transport of its own or of the caller's.
        /// </summary>
        public LaurelClient(string server, ITransport transport = null)
        {
            url = new Uri(server.TrimEnd('/') + "/graphql");
            this.transport = transport ?? new HttpTransport();
            Timeout = TimeSpan.FromSeconds(30);
        }

        /// <summary>The access token of the next requests; null for reads without one.</summary>
        public string Token { get; set; }

        /// <summary>The time for each request.</summary>
        public TimeSpan Timeout { get; set; }

        /// <summary>
        /// Submits up to <see cref="ScoresMax"/> scores to a board; the results are in their order.
        /// Each score is accepted or refused by itself. With <paramref name="durable"/> the server
        /// answers once its database has them, or UNKNOWN after 10 seconds.
        /// </summary>
        public async Task<IList<SubmitResult>> SubmitAsync(
            string board, IList<Score> scores, bool durable = false,
            CancellationToken cancel = default(CancellationToken))
        {
            if (scores.Count < 1 || scores.Count > ScoresMax)
            {
                throw new ArgumentException("a request has 1 to " + ScoresMax + " scores");
            }
            var input = new Dictionary<string, object>
            {
                { "board", board },
                { "scores", scores.Select(score => score.Fields()).ToList() },
                { "ack", durable ? "DURABLE" : "APPLIED" },
            };
            var variables = new Dictionary<string, object> { { "input", input } };
            return await AskAsync(Submit, variables, cancel, data =>
            {
                List<Json> results = data["submitScores"]["results"].Items.ToList();
                IEnumerable<string> members = results.Select(result => result["member"].Text);
                if (!members.SequenceEqual(scores.Select(score => score.Member)))
                {
                    throw new FormatException("the results are not those of the scores");
                }
                return results.Select(SubmitResult.Of).ToList();
            });
        }

        /// <summary>A page of the best entries, at most 1,000, after a page before.</summary>
        public Task<Page<Entry>> TopAsync(
            StandingsOf of, int first = 10, string after = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var variables = new Dictionary<string, object> { { "first", first }, { "after", after } };
            return ReadAsync(Top, of, variables, cancel,
                standings => new Page<Entry>(standings["top"], Entry.Of));
        }

        /// <summary>A member's entry; null if the member has none.</summary>
        public Task<Entry> EntryAsync(
            StandingsOf of, string member, CancellationToken cancel = default(CancellationToken))
        {
            var variables = new Dictionary<string, object> { { "member", member } };
            return ReadAsync(OneEntry, of, variables, cancel,
                standings => standings["entry"].IsNull ? null : Entry.Of(standings["entry"]));
        }

        /// <summary>The entries around a member, its own included; empty if it has none.</summary>
        public Task<IList<Entry>> NeighborsAsync(
            StandingsOf of, string member, int above = 5, int below = 5,
            CancellationToken cancel = default(CancellationToken))
        {
            var variables = new Dictionary<string, object>
            {
                { "member", member }, { "above", above }, { "below", below },
            };
            return ReadAsync<IList<Entry>>(Neighbors, of, variables, cancel,
                standings => standings["neighbors"].Items.Select(Entry.Of).ToList());
        }

        /// <summary>
        /// A page of a member and its friends, in rank order, and then those without a score. Needs
        /// the member's own token, or one of scope friends.
        /// </summary>
        public Task<Page<Friend>> FriendsAsync(
            StandingsOf of, string member, int first = 10, string after = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var variables = new Dictionary<string, object>
            {
                { "member", member }, { "first", first }, { "after", after },
            };
            return ReadAsync(Friends, of, variables, cancel,
                standings => new Page<Friend>(standings["friends"], Friend.Of));
        }

        private Task<T> ReadAsync<T>(
            string query, StandingsOf of, Dictionary<string, object> variables,
            CancellationToken cancel, Func<Json, T> read)
        {
            variables.Add("board", of.Board);
            variables.Add("of", of.Fields());
            return AskAsync(query, variables, cancel, data =>
            {
                if (data["board"].IsNull)
                {
                    throw new LaurelException("NOT_FOUND", "board " + of.Board + " does not exist");
                }
                return read(data["board"]["standings"]);
            });
        }

        private async Task<T> AskAsync<T>(
            string query, Dictionary<string, object> variables, CancellationToken cancel,
            Func<Json, T> read)
        {
            var request = new HttpPost
            {
                Url = url,
                Token = Token,
                RequestId = Score.RandomId(),
                Timeout = Timeout,
                Body = Json.Write(new Dictionary<string, object>
                {
                    { "query", query }, { "variables", variables },
                }),
            };
            if (Encoding.UTF8.GetByteCount(request.Body) > RequestBytesMax)
            {
                throw new LaurelException("LIMIT_EXCEEDED",
                    "a request has at most " + RequestBytesMax + " bytes");
            }
            try
            {
                return Answer.Read(await transport.PostAsync(request, cancel), read);
            }
            catch (LaurelException error)
            {
                error.RequestId = request.RequestId;
                throw;
            }
        }
    }
}
