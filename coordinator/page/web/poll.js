// Asks the coordinator again and again: every kEvery while it answers, ever more seldom while it does not, and not at
// all while nobody looks at the page. One question at a time, each with a deadline.

const kEvery = 2000;  // Milliseconds, all of them.
const kLongest = 15000;
const kDeadline = 6000;
const kHistoryEvery = 10000;

async function ask(path) {
  const response = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(kDeadline)});
  const answer = await response.json().catch(() => ({error: `it answered ${response.status} without JSON`}));
  if (answer.error) throw new Error(answer.error);
  return answer;
}

function reasonOf(error) {
  if (error.name === "TimeoutError") return `no answer within ${kDeadline / 1000} s`;
  // The browser does not say why a request failed; whatever it says is not for people.
  return error instanceof TypeError ? "it cannot be reached" : error.message;
}

export class Poll {
  // `onAnswer(overview, history)` after each answer; `onChange()` then and after each failure.
  constructor(onAnswer, onChange) {
    this.onAnswer = onAnswer;
    this.onChange = onChange;
    this.answered = null;  // When the newest answer came, by performance.now(); null: none yet.
    this.failures = 0;     // Since then.
    this.reason = "";      // Of the newest failure.
    this.next = null;      // When it is asked again; null: it is being asked, or the page is hidden.
    this.history = null;
    this.historyAt = 0;
    this.timer = null;
    this.asking = false;
    document.addEventListener("visibilitychange", () => this.resume());
    this.resume();
  }

  // At once when the page can be seen, and not before that otherwise.
  resume() {
    clearTimeout(this.timer);
    this.next = null;
    if (!document.hidden && !this.asking) this.look();
  }

  async look() {
    this.asking = true;
    this.next = null;
    const overview = await this.askAll();
    this.asking = false;
    if (overview) this.onAnswer(overview, this.history);
    this.onChange();
    if (document.hidden) return;
    const wait = Math.min(kEvery * 2 ** Math.max(0, this.failures - 1), kLongest);
    this.next = performance.now() + wait;
    this.timer = setTimeout(() => this.look(), wait);
  }

  // The overview, or null after a failure.
  async askAll() {
    try {
      const overview = await ask("/api/overview");
      if (!this.history || this.failures > 0 || performance.now() - this.historyAt >= kHistoryEvery) {
        this.history = await ask("/api/history");
        this.historyAt = performance.now();
      }
      this.answered = performance.now();
      this.failures = 0;
      return overview;
    } catch (error) {
      ++this.failures;
      this.reason = reasonOf(error);
      return null;
    }
  }
}
