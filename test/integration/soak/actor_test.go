package soak

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// actor takes one step after another. The lock guards the state that its steps share with the test.
type actor struct {
	mu sync.Mutex
	// said is the last logged error.
	said string
}

// repeat takes a step at each beat until ctx is done. The API server may be gone, or reject a call:
// an error is logged once in a row, and the next step tries again.
func (a *actor) repeat(ctx context.Context, s *stage.Stage, name string, step func(context.Context) error) {
	// The poll ends with ctx, which is no error.
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
