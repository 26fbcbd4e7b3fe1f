#include "coordinator/service/watchdog.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace diloco {
namespace {

TEST(WatchdogTest, CallsBackWhenAWaitIsNotOverInTime) {
  Watchdog watchdog;
  std::promise<void> expired;
  watchdog.Arm(absl::Milliseconds(1), [&expired] { expired.set_value(); });
  expired.get_future().wait();
}

// Holds the watchdog's thread inside a callback, so that what is armed meanwhile is due together.
class Gate {
 public:
  explicit Gate(Watchdog* watchdog) {
    watchdog->Arm(absl::ZeroDuration(), [this] {
      entered_.set_value();
      opened_.get_future().wait();
    });
    entered_.get_future().wait();
  }
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> opened_;
};

TEST(WatchdogTest, ExpiresInTheOrderOfTheDeadlines) {
  std::vector<int> order;  // The watchdog's thread, until `last` is set.
  std::promise<void> last;
  Watchdog watchdog;
  Gate gate(&watchdog);
  watchdog.Arm(absl::Hours(-1), [&] {
    order.push_back(3);
    last.set_value();
  });
  watchdog.Arm(absl::Hours(-3), [&] { order.push_back(1); });
  watchdog.Arm(absl::Hours(-2), [&] { order.push_back(2); });
  gate.Open();
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(WatchdogTest, ADisarmedWaitNeverExpires) {
  bool expired = false;
  std::promise<void> later;
  {
    Watchdog watchdog;
    Gate gate(&watchdog);
    const Watchdog::Token token = watchdog.Arm(absl::Hours(-2), [&expired] { expired = true; });
    EXPECT_NE(token, 0);
    watchdog.Disarm(token);
    watchdog.Disarm(token);
    watchdog.Arm(absl::Hours(-1), [&later] { later.set_value(); });
    gate.Open();
    later.get_future().wait();
  }
  EXPECT_FALSE(expired);
}

TEST(WatchdogTest, EndsWithWaitsArmed) {
  Watchdog watchdog;
  watchdog.Arm(absl::Hours(1), [] { FAIL(); });
}

}  // namespace
}  // namespace diloco
