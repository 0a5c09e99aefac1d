using System.Collections.Generic;
using System.Linq;

namespace Laurel
{
    /// <summary>The standings that are asked for: by default everyone's of all time.</summary>
    public sealed class StandingsOf
    {
        /// <summary>Those of a board, by its slug.</summary>
        public StandingsOf(string board, string window = "all")
        {
            Board = board;
            Window = window;
        }

        /// <summary>The board's slug.</summary>
        public string Board { get; private set; }

        /// <summary>The window's name, such as "daily".</summary>
        public string Window { get; private set; }

        /// <summary>The label of the period, such as "2026-11-22"; null for the present one.</summary>
        public string Period { get; set; }

        /// <summary>The segment, such as "region:eu"; null for everyone.</summary>
        public string Segment { get; set; }

        internal Dictionary<string, object> Fields()
        {
            return new Dictionary<string, object>
            {
                { "window", Window }, { "period", Period }, { "segment", Segment },
            };
        }
    }

    /// <summary>A member with rank and score.</summary>
    public sealed class Entry
    {
        internal const string Selection = "{ rank score formattedScore cursor member { key name } }";

        /// <summary>The rank, from 1.</summary>
        public int Rank { get; private set; }

        /// <summary>The exact score.</summary>
        public decimal Score { get; private set; }

        /// <summary>The score as its board shows it to people.</summary>
        public string FormattedScore { get; private set; }

        /// <summary>The member's key; null if the member hides from this client.</summary>
        public string Member { get; private set; }

        /// <summary>The member's name; null if it has none or hides.</summary>
        public string Name { get; private set; }

        /// <summary>The place from which a page of the top can go on.</summary>
        public string Cursor { get; private set; }

        internal static Entry Of(Json fields)
        {
            Json member = fields["member"];
            return new Entry
            {
                Rank = fields["rank"].Int,
                Score = fields["score"].Decimal,
                FormattedScore = fields["formattedScore"].Text,
                Cursor = fields["cursor"].Text,
                Member = member.IsNull ? null : member["key"].Text,
                Name = member.IsNull ? null : member["name"].TextOrNull,
            };
        }
    }

    /// <summary>A friend of a member, or the member among its friends.</summary>
    public sealed class Friend
    {
        internal const string Selection =
            "{ position isSelf member { key name } entry " + Laurel.Entry.Selection + " }";

        /// <summary>The position among the member and its friends, from 1; null without a score.</summary>
        public int? Position { get; private set; }

        /// <summary>True for the member itself.</summary>
        public bool IsSelf { get; private set; }

        /// <summary>The friend's key.</summary>
        public string Member { get; private set; }

        /// <summary>The friend's name; null without one.</summary>
        public string Name { get; private set; }

        /// <summary>The friend's entry among all members; null without a score.</summary>
        public Entry Entry { get; private set; }

        internal static Friend Of(Json fields)
        {
            Json position = fields["position"], entry = fields["entry"];
            return new Friend
            {
                Position = position.IsNull ? (int?)null : position.Int,
                IsSelf = fields["isSelf"].Bool,
                Member = fields["member"]["key"].Text,
                Name = fields["member"]["name"].TextOrNull,
                Entry = entry.IsNull ? null : Laurel.Entry.Of(entry),
            };
        }
    }

    /// <summary>A part of a list.</summary>
    public sealed class Page<T>
    {
        internal const string Selection = "pageInfo { hasNextPage endCursor }";

        internal Page(Json fields, System.Func<Json, T> item)
        {
            Items = fields["nodes"].Items.Select(item).ToList();
            Json info = fields["pageInfo"];
            Next = info["hasNextPage"].Bool ? info["endCursor"].Text : null;
        }

        /// <summary>The items, in order.</summary>
        public IList<T> Items { get; private set; }

        /// <summary>The value of "after" for the next page; null on the last one.</summary>
        public string Next { get; private set; }
    }
}
