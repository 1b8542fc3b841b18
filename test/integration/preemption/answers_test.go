package preemption

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

// answers has the HTTP status codes after which a client should retry.
var answers = map[string]int{"a conflict": http.StatusConflict, "too many requests": http.StatusTooManyRequests}

// TestAnswersToTryAgain makes one kind of call of a preemption fail for a time, with status 409
// (conflict) or 429 (too many requests). The preemption must complete with the same victims.
func TestAnswersToTryAgain(t *testing.T) {
	t.Parallel()
	calls := map[string]turnstile.Request{
		"deletes":                    {Verb: "delete", Resource: "pods"},
		"the victims' conditions":    {Verb: "patch", Resource: "pods", Subresource: "status"},
		"the binding of a preemptor": {Verb: "create", Resource: "pods", Subresource: "binding"},
		// The scheduler writes the intent to preempt with a different verb for each of the two APIs
		// of PodGroups. So this request matches every verb.
		"the intent on a PodGroup": {Resource: "podgroups", Subresource: "status", Name: "victim"},
	}
	for call, request := range calls {
		for answer, status := range answers {
			each(t, answer+" to "+call, request.Resource == "podgroups", func(e *env) { e.triesAgain(request, status) })
		}
	}
}

func (e *env) triesAgain(request turnstile.Request, status int) {
	e.addNodes("a", 1, 4)
	e.addNodes("b", 1, 4)
	bystander := unitSpec{name: "bystander", cpus: 4, priority: "below", zone: "b"}
	victim := unitSpec{name: "victim", cpus: 2, priority: "low", zone: "a", gang: 2}
	urgent := unitSpec{name: "urgent", cpus: 2, priority: "mid", gang: 2}
	e.createRunning(bystander, victim)
	request.Namespace = e.Namespace
	fails := e.proxy.Fail(request, status)
	e.Cleanup(fails.End)
	e.create(urgent)
	e.Eventually("it has been answered so twice", func(context.Context) string {
		count := 0
		for _, call := range e.proxy.Calls(request) {
			// Count only the writes of the intent. The scheduler also writes the numbers of members
			// to the status of a PodGroup.
			intent := bytes.Contains(call.Body, []byte(v1alpha1.ConditionDisruptionTarget))
			if call.Status == status && (intent || request.Resource != "podgroups") {
				count++
			}
		}
		if count < 2 {
			return fmt.Sprintf("%d times", count)
		}
		return ""
	})
	e.waitRunning(bystander)
	fails.End()
	e.waitRunning(urgent)
	e.Never("nothing else goes", func(context.Context) string {
		if got := e.deleted(); !slices.Equal(got, victim.names()) {
			return fmt.Sprintf("%v were taken, want %v", got, victim.names())
		}
		return ""
	})
	e.waitRunning(bystander)
}
