using System;
using System.Threading;
using System.Threading.Tasks;

namespace Laurel
{
    /// <summary>The limits and pauses of a <see cref="ScoreQueue"/>.</summary>
    public sealed class QueueOptions
    {
        private readonly Random random = new Random();

        /// <summary>The usual ones.</summary>
        public QueueOptions()
        {
            ScoresMax = 1000;
            BytesMax = 1024 * 1024;
            BatchScoresMax = 100;
            PauseMin = TimeSpan.FromSeconds(1);
            PauseMax = TimeSpan.FromMinutes(1);
            RememberedFor = TimeSpan.FromHours(23);
            IsDurable = true;
            Pause = Task.Delay;
        }

        /// <summary>The most scores that wait: 1,000.</summary>
        public int ScoresMax { get; set; }

        /// <summary>The most bytes of their file: 1 MiB.</summary>
        public int BytesMax { get; set; }

        /// <summary>The most scores of a request, 1 to 1,000: 100.</summary>
        public int BatchScoresMax { get; set; }

        /// <summary>The first pause after a failure, and the longest of a doubling: 1 s, 1 min.</summary>
        public TimeSpan PauseMin { get; set; }

        /// <summary>The longest pause, unless the server asks for a longer one.</summary>
        public TimeSpan PauseMax { get; set; }

        /// <summary>
        /// The time for which the server surely knows an event id: 23 hours, an hour less than the
        /// server's LAUREL_DEDUP_HOURS. A score that was sent so long ago without an answer is not
        /// sent again, as it might count twice.
        /// </summary>
        public TimeSpan RememberedFor { get; set; }

        /// <summary>True, the default, to keep scores until the server's database has them.</summary>
        public bool IsDurable { get; set; }

        /// <summary>The way to wait: Task.Delay, which Unity does not have in a browser.</summary>
        public Func<TimeSpan, CancellationToken, Task> Pause { get; set; }

        /// <summary>
        /// The pause after so many failures in a row: doubling, and up to half of it less by chance,
        /// so that devices which failed together do not come back together.
        /// </summary>
        internal TimeSpan PauseAfter(int failures, TimeSpan? retryAfter)
        {
            double doubled = PauseMin.TotalMilliseconds * Math.Pow(2, Math.Min(failures - 1, 30));
            double longest = Math.Min(doubled, PauseMax.TotalMilliseconds);
            double chance = random.NextDouble();
            double pause = longest * (1 - chance / 2);
            double asked = retryAfter.GetValueOrDefault().TotalMilliseconds * (1 + chance / 10);
            return TimeSpan.FromMilliseconds(Math.Max(pause, asked));
        }
    }
}
