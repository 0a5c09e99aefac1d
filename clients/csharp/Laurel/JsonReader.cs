using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Laurel
{
    /// <summary>Reads one text of JSON, by RFC 8259 and nothing beyond it.</summary>
    internal sealed class JsonReader
    {
        /// <summary>The most objects and arrays within each other.</summary>
        private const int DepthMax = 64;

        private readonly string text;
        private int at;
        private int depth;

        internal JsonReader(string text)
        {
            this.text = text;
        }

        /// <summary>The value of the whole text.</summary>
        internal object Document()
        {
            object value = Value();
            if (at < text.Length)
            {
                throw Wrong("the end");
            }
            return value;
        }

        private object Value()
        {
            SkipBlanks();
            object value;
            switch (Next())
            {
                case '{':
                    value = Within(Fields);
                    break;
                case '[':
                    value = Within(Items);
                    break;
                case '"':
                    value = String();
                    break;
                case 't':
                    value = Word("true", true);
                    break;
                case 'f':
                    value = Word("false", false);
                    break;
                case 'n':
                    value = Word("null", null);
                    break;
                default:
                    value = Number();
                    break;
            }
            SkipBlanks();
            return value;
        }

        private object Within(Func<object> read)
        {
            at++;
            if (++depth > DepthMax)
            {
                throw Wrong("at most " + DepthMax + " levels");
            }
            object value = read();
            depth--;
            return value;
        }

        private object Fields()
        {
            var fields = new Dictionary<string, object>(StringComparer.Ordinal);
            SkipBlanks();
            if (Takes('}'))
            {
                return fields;
            }
            do
            {
                SkipBlanks();
                string name = String();
                SkipBlanks();
                Take(':');
                if (fields.ContainsKey(name))
                {
                    throw Wrong("each name once");
                }
                fields.Add(name, Value());
            }
            while (Takes(','));
            Take('}');
            return fields;
        }

        private object Items()
        {
            var items = new List<object>();
            SkipBlanks();
            if (Takes(']'))
            {
                return items;
            }
            do
            {
                items.Add(Value());
            }
            while (Takes(','));
            Take(']');
            return items;
        }

        private string String()
        {
            Take('"');
            var letters = new StringBuilder();
            while (!Takes('"'))
            {
                char letter = Next();
                if (letter < ' ')
                {
                    throw Wrong("a letter");
                }
                at++;
                letters.Append(letter == '\\' ? Escaped() : letter);
            }
            return letters.ToString();
        }

        private char Escaped()
        {
            char letter = Next();
            at++;
            switch (letter)
            {
                case 'b':
                    return '\b';
                case 'f':
                    return '\f';
                case 'n':
                    return '\n';
                case 'r':
                    return '\r';
                case 't':
                    return '\t';
                case '"':
                case '\\':
                case '/':
                    return letter;
            }
            int code;
            at--;
            if (letter != 'u' || at + 5 > text.Length || !int.TryParse(
                text.Substring(at + 1, 4), NumberStyles.AllowHexSpecifier,
                CultureInfo.InvariantCulture, out code))
            {
                throw Wrong("an escaped letter");
            }
            at += 5;
            return (char)code;
        }

        private object Number()
        {
            int start = at;
            Takes('-');
            if (!Takes('0'))
            {
                Digits();
            }
            bool isInteger = true;
            if (Takes('.'))
            {
                isInteger = false;
                Digits();
            }
            if (Takes('e') || Takes('E'))
            {
                isInteger = false;
                if (!Takes('+'))
                {
                    Takes('-');
                }
                Digits();
            }
            string number = text.Substring(start, at - start);
            long whole;
            if (isInteger && long.TryParse(
                number, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out whole))
            {
                return whole;
            }
            return double.Parse(number, NumberStyles.Float, CultureInfo.InvariantCulture);
        }

        private void Digits()
        {
            int start = at;
            while (at < text.Length && text[at] >= '0' && text[at] <= '9')
            {
                at++;
            }
            if (at == start)
            {
                throw Wrong("a digit");
            }
        }

        private object Word(string word, object value)
        {
            if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0)
            {
                throw Wrong(word);
            }
            at += word.Length;
            return value;
        }

        private void SkipBlanks()
        {
            while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0)
            {
                at++;
            }
        }

        private char Next()
        {
            if (at == text.Length)
            {
                throw Wrong("more");
            }
            return text[at];
        }

        private bool Takes(char letter)
        {
            bool isNext = at < text.Length && text[at] == letter;
            at += isNext ? 1 : 0;
            return isNext;
        }

        private void Take(char letter)
        {
            if (!Takes(letter))
            {
                throw Wrong(letter.ToString());
            }
        }

        private FormatException Wrong(string expected)
        {
            return new FormatException("JSON: expected " + expected + " at letter " + (at + 1));
        }
    }
}
