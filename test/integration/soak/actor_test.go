package soak

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// actor performs steps in a loop. The lock guards the state that its steps share with the test.
type actor struct {
	mu sync.Mutex
	// said is the text of the last logged error.
	said string
}

// repeat performs a step at each beat until ctx is done. A step may fail, because the API server
// may be down or reject a call. repeat logs an error once and continues with the next step.
func (a *actor) repeat(ctx context.Context, s *stage.Stage, name string, step func(context.Context) error) {
	// Ignore the error. It only reports the end of ctx.
	_ = wait.PollUntilContextCancel(ctx, beat, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := step(ctx); err != nil && s.Context().Err() == nil && err.Error() != a.said {
			a.said = err.Error()
			s.Logf("%s: %.150s", name, a.said)
		}
		return false, nil
	})
}
