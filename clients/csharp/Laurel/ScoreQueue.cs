using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Laurel
{
    /// <summary>
    /// Scores on their way to the server, kept in a file until the server has answered for each.
    /// They are sent in order, by one flush at a time, and again with the same event ids until then:
    /// none is lost or counts twice. All methods may be called by any thread; one queue has a file.
    /// </summary>
    public sealed class ScoreQueue
    {
        /// <summary>The most bytes of the scores of a request.</summary>
        private const int BatchBytesMax = 256 * 1024;

        /// <summary>The bytes of the file around the scores.</summary>
        private const int FrameBytes = 64;

        private readonly object gate = new object();
        private readonly LaurelClient client;
        private readonly QueueFile file;
        private readonly QueueOptions options;
        private readonly List<QueuedScore> scores;
        private TaskCompletionSource<bool> flush;

        /// <summary>
        /// Opens the queue in a file, which is made with the first score. Throws
        /// InvalidDataException for a file that is not a queue's.
        /// </summary>
        public ScoreQueue(LaurelClient client, string path, QueueOptions options = null)
        {
            this.client = client;
            this.options = options ?? new QueueOptions();
            if (this.options.BatchScoresMax < 1
                || this.options.BatchScoresMax > LaurelClient.ScoresMax)
            {
                throw new ArgumentException("BatchScoresMax is 1 to " + LaurelClient.ScoresMax);
            }
            file = new QueueFile(path);
            scores = file.Read(this.options.BytesMax);
        }

        /// <summary>
        /// Called for each score that the server has accepted or refused, before it leaves the
        /// queue: after a crash in between, it is called again. A score that was sent longer ago
        /// than <see cref="QueueOptions.RememberedFor"/> comes as UNKNOWN with code ID_FORGOTTEN.
        /// An exception ends the flush and leaves the score in the queue.
        /// </summary>
        public event Action<QueuedScore, SubmitResult> Answered;

        /// <summary>The number of scores that wait.</summary>
        public int Count
        {
            get
            {
                lock (gate)
                {
                    return scores.Count;
                }
            }
        }

        /// <summary>
        /// Puts a score into the file, and returns once the disk has it. Throws LaurelException
        /// QUEUE_FULL if there is no room, and the errors of files; then it is not queued.
        /// </summary>
        public void Add(string board, Score score)
        {
            // A copy: nothing changes what an event id stands for.
            var queued = new QueuedScore(board, Score.Of(new Json(score.Fields())), null);
            lock (gate)
            {
                int bytes = FrameBytes + scores.Sum(other => other.Bytes + 1) + queued.Bytes;
                if (scores.Count >= options.ScoresMax || bytes > options.BytesMax)
                {
                    throw new LaurelException("QUEUE_FULL", scores.Count + " scores wait already");
                }
                file.Write(scores.Concat(new[] { queued }));
                scores.Add(queued);
            }
        }

        /// <summary>The scores that wait, in order.</summary>
        public IList<QueuedScore> Waiting()
        {
            lock (gate)
            {
                return scores.ToList();
            }
        }

        /// <summary>
        /// Takes scores out that need not be sent, such as those of a player who has gone. One that
        /// is on its way may still count.
        /// </summary>
        public void Remove(Func<QueuedScore, bool> which)
        {
            Drop(new HashSet<QueuedScore>(Waiting().Where(which)));
        }

        /// <summary>
        /// Sends all scores, and those that are added meanwhile, with pauses while the server cannot
        /// be reached. A second call joins the flush that runs, whose token holds. Throws what only
        /// the caller can mend, such as the LaurelException EXPIRED_TOKEN or FORBIDDEN; the scores
        /// stay for the next flush then, and when it is canceled.
        /// </summary>
        public Task FlushAsync(CancellationToken cancel = default(CancellationToken))
        {
            TaskCompletionSource<bool> done;
            lock (gate)
            {
                if (flush != null)
                {
                    return flush.Task;
                }
                flush = done = new TaskCompletionSource<bool>();
            }
            _ = RunAsync(done, cancel);
            return done.Task;
        }

        private async Task RunAsync(TaskCompletionSource<bool> done, CancellationToken cancel)
        {
            try
            {
                int failures = 0, most = options.BatchScoresMax;
                List<QueuedScore> batch;
                while ((batch = Next(most, done)).Count > 0)
                {
                    List<QueuedScore> marked = batch.Where(score => score.SentAt == null).ToList();
                    IList<SubmitResult> results = null;
                    TimeSpan? retryAfter = null;
                    try
                    {
                        results = await SendAsync(batch, marked, cancel);
                    }
                    catch (LaurelException error) when (error.IsTransient)
                    {
                        retryAfter = error.RetryAfter;
                    }
                    catch (LaurelException error) when (IsRefusal(error))
                    {
                        // One may be at fault for all, unless their board does not exist.
                        if (batch.Count > 1 && error.Argument != "input.board")
                        {
                            most = batch.Count / 2;
                            continue;
                        }
                        results = batch.Select(score => SubmitResult.Of(error)).ToList();
                    }
                    bool isOver = results != null && Settle(batch, marked, results);
                    failures = isOver ? 0 : failures + 1;
                    most = Math.Min(2 * most, options.BatchScoresMax);
                    if (failures > 0)
                    {
                        await options.Pause(options.PauseAfter(failures, retryAfter), cancel);
                    }
                }
                done.TrySetResult(true);
            }
            catch (OperationCanceledException)
            {
                End(done);
                done.TrySetCanceled();
            }
            catch (Exception error)
            {
                End(done);
                done.TrySetException(error);
            }
        }

        /// <summary>
        /// The next scores to send, all of one board; the flush is over if there are none.
        /// </summary>
        private List<QueuedScore> Next(int most, TaskCompletionSource<bool> done)
        {
            HandOverForgotten();
            lock (gate)
            {
                var batch = new List<QueuedScore>();
                int bytes = 0;
                foreach (QueuedScore score in scores.Take(most))
                {
                    bytes += score.Bytes;
                    if (score.Board != scores[0].Board || (bytes > BatchBytesMax && batch.Count > 0))
                    {
                        break;
                    }
                    batch.Add(score);
                }
                if (batch.Count == 0)
                {
                    End(done);
                }
                return batch;
            }
        }

        /// <summary>Sends scores, of which some were not on their way before.</summary>
        private async Task<IList<SubmitResult>> SendAsync(
            List<QueuedScore> batch, List<QueuedScore> marked, CancellationToken cancel)
        {
            cancel.ThrowIfCancellationRequested();
            Mark(marked, DateTime.UtcNow);
            try
            {
                List<Score> sent = batch.Select(queued => queued.Score).ToList();
                return await client.SubmitAsync(batch[0].Board, sent, options.IsDurable, cancel);
            }
            catch (LaurelException error) when (!error.MayBeDone)
            {
                Mark(marked, null);
                throw;
            }
        }

        /// <summary>Hands over scores by their results; true if none is to be sent again.</summary>
        private bool Settle(
            List<QueuedScore> batch, List<QueuedScore> marked, IList<SubmitResult> results)
        {
            var answered = new HashSet<QueuedScore>();
            var unwritten = new HashSet<QueuedScore>();
            for (int index = 0; index < batch.Count; index++)
            {
                if (!results[index].IsTransient)
                {
                    Tell(batch[index], results[index]);
                    answered.Add(batch[index]);
                }
                else if (results[index].Status == "REJECTED")
                {
                    unwritten.Add(batch[index]);
                }
            }
            Drop(answered);
            Mark(marked.Where(unwritten.Contains).ToList(), null);
            return answered.Count == batch.Count;
        }

        /// <summary>True if the server has refused a request for its content.</summary>
        private static bool IsRefusal(LaurelException error)
        {
            return error.Code == "BAD_USER_INPUT" || error.Code == "LIMIT_EXCEEDED"
                || error.Code == "NOT_FOUND";
        }

        /// <summary>Hands over scores that would count twice if an earlier request arrived.</summary>
        private void HandOverForgotten()
        {
            DateTime oldest = DateTime.UtcNow - options.RememberedFor;
            List<QueuedScore> forgotten = Waiting().Where(score => score.SentAt < oldest).ToList();
            foreach (QueuedScore score in forgotten)
            {
                Tell(score, new SubmitResult
                {
                    Status = "UNKNOWN",
                    Code = "ID_FORGOTTEN",
                    Message = "sent at " + Json.OfTime(score.SentAt.Value) + " without an answer",
                });
            }
            Drop(new HashSet<QueuedScore>(forgotten));
        }

        private void Tell(QueuedScore score, SubmitResult result)
        {
            Action<QueuedScore, SubmitResult> answered = Answered;
            if (answered != null)
            {
                answered(score, result);
            }
        }

        /// <summary>Notes in the file when scores were sent.</summary>
        private void Mark(List<QueuedScore> marked, DateTime? sentAt)
        {
            if (marked.Count == 0)
            {
                return;
            }
            lock (gate)
            {
                marked.ForEach(score => score.SentAt = sentAt);
                file.Write(scores);
            }
        }

        /// <summary>Takes scores out of the file, and then out of memory.</summary>
        private void Drop(HashSet<QueuedScore> dropped)
        {
            if (dropped.Count == 0)
            {
                return;
            }
            lock (gate)
            {
                file.Write(scores.Where(score => !dropped.Contains(score)));
                scores.RemoveAll(dropped.Contains);
            }
        }

        private void End(TaskCompletionSource<bool> done)
        {
            lock (gate)
            {
                flush = flush == done ? null : flush;
            }
        }
    }
}
