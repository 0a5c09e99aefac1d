using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Laurel
{
    /// <summary>
    /// A value of JSON with typed access, its strict reader and its writer. Unity and mono have no
    /// reader in common: DataContractJsonSerializer makes its types by reflection, which IL2CPP
    /// strips, and JavaScriptSerializer, JsonUtility and System.Text.Json are in one of them alone.
    /// </summary>
    internal sealed class Json
    {
        // Dictionary<string, object>, List<object>, string, double, long, bool or null.
        private readonly object value;

        internal Json(object value)
        {
            this.value = value;
        }

        internal bool IsNull
        {
            get { return value == null; }
        }

        /// <summary>A field; null if the object does not have it.</summary>
        internal Json this[string name]
        {
            get
            {
                object field;
                As<Dictionary<string, object>>("an object").TryGetValue(name, out field);
                return new Json(field);
            }
        }

        internal IEnumerable<Json> Items
        {
            get
            {
                foreach (object item in As<List<object>>("an array"))
                {
                    yield return new Json(item);
                }
            }
        }

        internal string Text
        {
            get { return As<string>("a string"); }
        }

        internal string TextOrNull
        {
            get { return IsNull ? null : Text; }
        }

        internal bool Bool
        {
            get { return (bool)As<object>(value is bool, "true or false"); }
        }

        internal long Long
        {
            get { return (long)As<object>(value is long, "an integer"); }
        }

        internal int Int
        {
            get
            {
                long number = Long;
                As<object>(number >= int.MinValue && number <= int.MaxValue, "an integer of 32 bits");
                return (int)number;
            }
        }

        /// <summary>A Decimal, which is sent as a string.</summary>
        internal decimal Decimal
        {
            get
            {
                decimal number;
                bool isRead = decimal.TryParse(Text, Decimals, CultureInfo.InvariantCulture, out number);
                As<object>(isRead, "a decimal");
                return number;
            }
        }

        /// <summary>A DateTime in UTC, which is sent as a string.</summary>
        internal DateTime Time
        {
            get
            {
                DateTime time;
                bool isRead = DateTime.TryParseExact(
                    Text, TimeFormat, CultureInfo.InvariantCulture,
                    DateTimeStyles.AssumeUniversal | DateTimeStyles.AdjustToUniversal, out time);
                As<object>(isRead, "a time in UTC");
                return time;
            }
        }

        /// <summary>The value as it is written.</summary>
        internal object Raw
        {
            get { return value; }
        }

        private const NumberStyles Decimals =
            NumberStyles.AllowLeadingSign | NumberStyles.AllowDecimalPoint;

        private const string TimeFormat = "yyyy-MM-dd'T'HH:mm:ss.fff'Z'";

        /// <summary>The text of an instant, which must be in UTC.</summary>
        internal static string OfTime(DateTime time)
        {
            if (time.Kind != DateTimeKind.Utc)
            {
                throw new ArgumentException("a time must be in UTC, as DateTime.UtcNow is");
            }
            return time.ToString(TimeFormat, CultureInfo.InvariantCulture);
        }

        /// <summary>Reads a text of JSON, and nothing after it. Throws FormatException.</summary>
        internal static Json Parse(string text)
        {
            return new Json(new JsonReader(text).Document());
        }

        /// <summary>
        /// The compact text of a value: of dictionaries, lists, strings, numbers, booleans and null.
        /// </summary>
        internal static string Write(object value)
        {
            var text = new StringBuilder();
            Write(value, text);
            return text.ToString();
        }

        private static void Write(object value, StringBuilder text)
        {
            var fields = value as IDictionary<string, object>;
            var items = value as IEnumerable<object>;
            if (value == null)
            {
                text.Append("null");
            }
            else if (value is string)
            {
                WriteString((string)value, text);
            }
            else if (value is bool)
            {
                text.Append((bool)value ? "true" : "false");
            }
            else if (fields != null)
            {
                WriteFields(fields, text);
            }
            else if (items != null)
            {
                string separator = "[";
                foreach (object item in items)
                {
                    text.Append(separator);
                    Write(item, text);
                    separator = ",";
                }
                text.Append(separator == "[" ? "[]" : "]");
            }
            else if (value is double)
            {
                text.Append(((double)value).ToString("R", CultureInfo.InvariantCulture));
            }
            else
            {
                text.Append(((IFormattable)value).ToString(null, CultureInfo.InvariantCulture));
            }
        }

        private static void WriteFields(IDictionary<string, object> fields, StringBuilder text)
        {
            string separator = "{";
            foreach (KeyValuePair<string, object> field in fields)
            {
                text.Append(separator);
                WriteString(field.Key, text);
                text.Append(':');
                Write(field.Value, text);
                separator = ",";
            }
            text.Append(separator == "{" ? "{}" : "}");
        }

        private static void WriteString(string value, StringBuilder text)
        {
            text.Append('"');
            for (int index = 0; index < value.Length; index++)
            {
                char letter = value[index];
                if (letter == '"' || letter == '\\')
                {
                    text.Append('\\').Append(letter);
                }
                else if (letter < ' ')
                {
                    text.Append("\\u").Append(((int)letter).ToString("x4", CultureInfo.InvariantCulture));
                }
                else if (char.IsHighSurrogate(letter) && index + 1 < value.Length
                    && char.IsLowSurrogate(value[index + 1]))
                {
                    text.Append(letter).Append(value[++index]);
                }
                else if (char.IsSurrogate(letter))
                {
                    throw new ArgumentException("half of a character of UTF-16 is no text");
                }
                else
                {
                    text.Append(letter);
                }
            }
            text.Append('"');
        }

        private T As<T>(string expected) where T : class
        {
            return As<T>(value is T, expected);
        }

        private T As<T>(bool isSo, string expected) where T : class
        {
            if (!isSo)
            {
                string found = value == null ? "null" : value.GetType().Name;
                throw new FormatException("expected " + expected + ", found " + found);
            }
            return value as T;
        }
    }
}
