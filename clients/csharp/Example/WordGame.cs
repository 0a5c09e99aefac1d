using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Laurel;

/// <summary>
/// A word game for the terminal: each word scores its letters, rare ones more. Scores wait in a file
/// while the server is away, so play on, and quit when you like. The access token is in LAUREL_TOKEN.
/// </summary>
internal static class WordGame
{
    private static readonly CancellationTokenSource quit = new CancellationTokenSource();
    private static LaurelClient client;
    private static ScoreQueue queue;
    private static string board;
    private static string player;

    private static int Main(string[] arguments)
    {
        if (arguments.Length != 4 && arguments.Length != 5)
        {
            Console.Error.WriteLine("WordGame SERVER BOARD PLAYER FILE [TIMEOUT_SECONDS]");
            return 2;
        }
        client = new LaurelClient(arguments[0])
        {
            Token = Environment.GetEnvironmentVariable("LAUREL_TOKEN"),
            Timeout = TimeSpan.FromSeconds(arguments.Length == 5 ? int.Parse(arguments[4]) : 30),
        };
        board = arguments[1];
        player = arguments[2];
        queue = new ScoreQueue(client, arguments[3], new QueueOptions
        {
            PauseMin = TimeSpan.FromSeconds(0.1),
            PauseMax = TimeSpan.FromSeconds(2),
        });
        queue.Answered += Answered;
        Console.WriteLine("waiting: " + queue.Count);
        PlayAsync().Wait();
        return 0;
    }

    private static async Task PlayAsync()
    {
        Task sending = TryAsync("not sent", () => queue.FlushAsync(quit.Token));
        string line;
        while ((line = await Console.In.ReadLineAsync()) != null && line != "quit")
        {
            if (line == "table")
            {
                await TryAsync("no table", ShowAsync);
                continue;
            }
            string word = line;
            await TryAsync("not taken", () => Task.Run(() => Take(word)));
            sending = TryAsync("not sent", () => queue.FlushAsync(quit.Token));
        }
        quit.Cancel();
        await sending;
        Console.WriteLine("for the next time: " + queue.Count);
    }

    /// <summary>Takes a word; its score is safe from here on.</summary>
    private static void Take(string word)
    {
        queue.Add(board, new Score(player, Points(word)));
        Console.WriteLine(word + ": " + Points(word) + " points");
    }

    private static async Task TryAsync(string failure, Func<Task> act)
    {
        try
        {
            await act();
        }
        catch (LaurelException error)
        {
            Console.WriteLine(failure + ": " + error.Code);
        }
        catch (OperationCanceledException)
        {
            // The player has quit.
        }
    }

    private static void Answered(QueuedScore queued, SubmitResult result)
    {
        string outcome = result.Counts ? "counted" : result.Status + " " + result.Code;
        Console.WriteLine(outcome + ": " + queued.Score.Value);
    }

    private static async Task ShowAsync()
    {
        var standings = new StandingsOf(board, "daily");
        Show("top", (await client.TopAsync(standings, 3)).Items);
        Show("near you", await client.NeighborsAsync(standings, player, 1, 1));
        Page<Friend> friends = await client.FriendsAsync(standings, player);
        Show("friends", friends.Items.Select(friend => friend.Entry).Where(entry => entry != null));
        Entry own = await client.EntryAsync(standings, player);
        Console.WriteLine(own == null ? "you: none" : "you: " + own.Rank + ". " + own.Score);
    }

    private static void Show(string title, IEnumerable<Entry> entries)
    {
        IEnumerable<string> rows =
            entries.Select(entry => entry.Rank + ". " + (entry.Name ?? entry.Member) + " " + entry.Score);
        Console.WriteLine(title + ": " + string.Join(", ", rows));
    }

    private static int Points(string word)
    {
        return word.ToLowerInvariant().Sum(letter => "etaoinsrhldcumfpgwybvkxjqz".IndexOf(letter) + 1);
    }
}
