#include "coordinator/round/decide.h"

#include <gtest/gtest.h>

namespace diloco {
namespace {

using Names = std::vector<std::string>;

MonotonicTime At(double seconds) { return MonotonicTime{} + absl::Seconds(seconds); }

struct Case {
  std::string name;
  int quorum = 1;
  int live = 0;
  Names present = {};
  Names abstained = {};
  Names awaited = {};
  Names lost = {};
  Names later = {};
  Names done = {};
  // Quorum was reached at 100 s, the grace window is 30 s, and it is `now`.
  bool quorum_reached = false;
  double now = 100;
  std::string basis = "";                        // Of the grace window.
  std::optional<double> timeout = std::nullopt;  // The round opened at 50 s.
  // Wanted.
  bool close = false;
  std::string reason = "";
  std::optional<double> next_check = std::nullopt;
};

std::vector<Case> Cases() {
  return {
      // The quorum.
      {.name = "NobodyHere", .quorum = 2, .live = 0, .reason = "need 2 more of 0 live workers"},
      {.name = "NobodyHasAnswered",
       .quorum = 2,
       .live = 2,
       .awaited = {"east", "west"},
       .reason = "need 2 more of 2 live workers; waiting for \"east\", \"west\""},
      {.name = "QuorumIsReachedNow",
       .quorum = 2,
       .live = 3,
       .present = {"east", "eu"},
       .awaited = {"us-1"},
       .quorum_reached = false,
       .reason = "quorum 2/2 reached, waiting 30.0s more for \"us-1\": grace window of 30.0s",
       .next_check = 130},
      {.name = "OneShort",
       .quorum = 3,
       .live = 3,
       .present = {"east", "eu"},
       .awaited = {"us-1"},
       .reason = "need 1 more of 3 live workers; waiting for \"us-1\""},
      {.name = "TheRestIsLost",
       .quorum = 2,
       .live = 1,
       .present = {"east"},
       .lost = {"west"},
       .reason = "need 1 more of 1 live worker; lost \"west\""},
      {.name = "PresentOfALostWorkerCounts",
       .quorum = 2,
       .live = 1,
       .present = {"east", "west"},
       .close = true,
       .reason = "all 2 present"},
      {.name = "AllPresent",
       .quorum = 2,
       .live = 3,
       .present = {"east", "eu", "us"},
       .close = true,
       .reason = "all 3 present"},
      {.name = "QuorumWithoutALostOne",
       .quorum = 2,
       .live = 2,
       .present = {"east", "eu"},
       .lost = {"us"},
       .close = true,
       .reason = "all 2 present; lost \"us\""},

      // The grace window.
      {.name = "GraceHasJustBegun",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 100,
       .reason = "quorum 1/1 reached, waiting 30.0s more for \"west\": grace window of 30.0s",
       .next_check = 130},
      {.name = "TheRestOfTheGraceWindowIsRoundedUp",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 117.75,
       .reason = "quorum 1/1 reached, waiting 12.3s more for \"west\": grace window of 30.0s",
       .next_check = 130},
      {.name = "ALastMomentIsNotZero",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 129.999,
       .reason = "quorum 1/1 reached, waiting 0.1s more for \"west\": grace window of 30.0s",
       .next_check = 130},
      {.name = "GraceIsOver",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 130,
       .close = true,
       .reason = "quorum 1/1, grace window of 30.0s over without \"west\""},
      {.name = "GraceDoesNotReplaceTheQuorum",
       .quorum = 2,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 1000,
       .reason = "need 1 more of 2 live workers; waiting for \"west\""},

      {.name = "AnAdaptiveWindowSaysWhereItComesFrom",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 110,
       .basis = "adaptive: median 21.0s, spread 3.0s, 9 rounds",
       .reason = "quorum 1/1 reached, waiting 20.0s more for \"west\": grace window of 30.0s (adaptive: median 21.0s, "
                 "spread 3.0s, 9 rounds)",
       .next_check = 130},
      {.name = "AnAdaptiveWindowIsOver",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 130,
       .basis = "adaptive: median 21.0s, spread 3.0s, 9 rounds",
       .close = true,
       .reason = "quorum 1/1, grace window of 30.0s (adaptive: median 21.0s, spread 3.0s, 9 rounds) over without "
                 "\"west\""},

      // The timeout.
      {.name = "TheTimeoutComesBeforeTheGraceWindowEnds",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 110,
       .timeout = 65,
       .reason = "quorum 1/1 reached, waiting 5.0s more for \"west\": timeout of 65.0s",
       .next_check = 115},
      {.name = "TheTimeoutIsOver",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 115,
       .timeout = 65,
       .close = true,
       .reason = "quorum 1/1, timeout of 65.0s over without \"west\""},
      {.name = "TheTimeoutComesAfterTheGraceWindow",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .quorum_reached = true,
       .now = 130,
       .timeout = 90,
       .close = true,
       .reason = "quorum 1/1, grace window of 30.0s over without \"west\""},
      {.name = "TheTimeoutDoesNotReplaceTheQuorum",
       .quorum = 2,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .now = 1000,
       .timeout = 65,
       .reason = "need 1 more of 2 live workers; waiting for \"west\""},
      {.name = "AQuorumAfterTheTimeoutClosesAtOnce",
       .quorum = 1,
       .live = 2,
       .present = {"east"},
       .awaited = {"west"},
       .now = 1000,
       .timeout = 65,
       .close = true,
       .reason = "quorum 1/1, timeout of 65.0s over without \"west\""},

      // Members that are done with the run.
      {.name = "NobodyWaitsForWhoIsDone",
       .quorum = 2,
       .live = 2,
       .present = {"east", "west"},
       .done = {"north"},
       .close = true,
       .reason = "all 2 present; nothing more from \"north\""},
      {.name = "WhoIsDoneDoesNotLowerTheQuorum",
       .quorum = 2,
       .live = 1,
       .present = {"east"},
       .done = {"north"},
       .reason = "need 1 more of 1 live worker; nothing more from \"north\""},

      // Abstentions.
      {.name = "AnAbstentionLowersTheQuorum",
       .quorum = 2,
       .live = 2,
       .present = {"east"},
       .abstained = {"west"},
       .close = true,
       .reason = "all 1 present; nothing from \"west\""},
      {.name = "AnAbstentionDoesNotEndTheWaitForOthers",
       .quorum = 2,
       .live = 3,
       .present = {"east"},
       .abstained = {"west"},
       .awaited = {"eu"},
       .quorum_reached = true,
       .now = 110,
       .reason = "quorum 1/1 reached, waiting 20.0s more for \"eu\": grace window of 30.0s; nothing from \"west\"",
       .next_check = 130},
      {.name = "AllAbstained",
       .quorum = 2,
       .live = 2,
       .abstained = {"east", "west"},
       .close = true,
       .reason = "nobody has anything to merge; nothing from \"east\", \"west\""},
      {.name = "NoRoundClosesEmptyWhileSomebodyIsAwaited",
       .quorum = 1,
       .live = 2,
       .abstained = {"west"},
       .awaited = {"east"},
       .quorum_reached = true,
       .now = 1000,
       .reason = "need 1 more of 2 live workers; waiting for \"east\"; nothing from \"west\""},

      // Members that start with a later round.
      {.name = "AJoinerIsNotWaitedFor",
       .quorum = 2,
       .live = 3,
       .present = {"east", "west"},
       .later = {"north"},
       .close = true,
       .reason = "all 2 present; not before a later round \"north\""},
      {.name = "AJoinerDoesNotStandInForOneThatIsAwaited",
       .quorum = 2,
       .live = 3,
       .present = {"east"},
       .awaited = {"west"},
       .later = {"north"},
       .reason = "need 1 more of 3 live workers; waiting for \"west\"; not before a later round \"north\""},
      {.name = "ARoundDoesNotWaitForEverForAQuorumThatStartsLater",
       .quorum = 2,
       .live = 2,
       .present = {"east"},
       .lost = {"west"},
       .later = {"north"},
       .close = true,
       .reason = "all 1 present; lost \"west\"; not before a later round \"north\""},
      {.name = "OneJoinerStandsInForOne",
       .quorum = 3,
       .live = 2,
       .present = {"east"},
       .later = {"north"},
       .reason = "need 1 more of 2 live workers; not before a later round \"north\""},

      // Long lists.
      {.name = "LongListsAreCut",
       .quorum = 5,
       .live = 5,
       .awaited = {"a", "b", "c", "d", "e"},
       .reason = "need 5 more of 5 live workers; waiting for \"a\", \"b\", \"c\" and 2 more"},
  };
}

class DecideTest : public testing::TestWithParam<Case> {};

TEST_P(DecideTest, GivesDecisionReasonAndNextCheck) {
  const Case& c = GetParam();
  RoundFacts facts;
  facts.quorum = c.quorum;
  facts.grace_window = {.length = absl::Seconds(30), .basis = c.basis};
  facts.opened = At(50);
  if (c.timeout) facts.timeout = absl::Seconds(*c.timeout);
  facts.live = c.live;
  facts.present = c.present;
  facts.abstained = c.abstained;
  facts.awaited = c.awaited;
  facts.lost = c.lost;
  facts.later = c.later;
  facts.done = c.done;
  if (c.quorum_reached) facts.quorum_since = At(100);

  const Decision decision = Decide(facts, At(c.now));

  EXPECT_EQ(decision.close, c.close);
  EXPECT_EQ(decision.reason, c.reason);
  EXPECT_EQ(decision.next_check, c.next_check ? std::optional(At(*c.next_check)) : std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Table, DecideTest, testing::ValuesIn(Cases()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace diloco
