package app

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestLongProgress checks the progress of a command whose output is no terminal. A command that
// takes longer than lineEvery writes lines of progress, and a shorter one writes none.
func TestLongProgress(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]string{1: "", 25: "hour 9\nhour 19\n"} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				p := newLongProgress(io.Writer(&out), clock.RealClock{})
				time.Sleep(time.Second / 2)
				for i := range seconds {
					p.say("hour %d", i)
					time.Sleep(time.Second)
				}
				p.end()
				if got := out.String(); got != want {
					t.Errorf("It writes %q, want %q", got, want)
				}
			})
		})
	}
}
