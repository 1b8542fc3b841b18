package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestTemplateThatIsRefused checks the case that the API server rejects the fields of a template in
// a PodGroup as invalid. Users see the reason, and there is no retry.
func TestTemplateThatIsRefused(t *testing.T) {
	t.Parallel()
	pg := gangGroup(2)
	pg.Spec.Priority = nil
	invalid := apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("PodGroup").GroupKind(), "g", nil)
	cl := interceptor.NewClient(newWithWatch(t, pg), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return invalid
		},
	})
	recorder := events.NewFakeRecorder(1)
	gangs := engine.New(nil).Gangs
	result, err := NewResolver(cl, classes(t), gangs, recorder).Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey})
	if err != nil || !result.IsZero() || len(recorder.Events) != 1 {
		t.Errorf("Again: %+v, error: %v, %d events", result, err, len(recorder.Events))
	}
	if v := gangs.Unresolved(gang.KeyOf(groupKey)); v.Reason != v1alpha1.ReasonInvalidTemplate {
		t.Errorf("Lacks %+v", v)
	}
}

// TestGroupThatCannotBeFilledIn checks that users see the reason why the fields of a PodGroup
// cannot be written, and that the write is retried.
func TestGroupThatCannotBeFilledIn(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.SchemeGroupVersion.WithResource("podgroups").GroupResource()
	for name, c := range map[string]struct {
		err error
		// wantAgain is true if Reconcile must return an error, which causes a retry. A conflict is
		// retried without an error.
		wantAgain bool
		want      string
	}{
		"it is forbidden":     {apierrors.NewForbidden(resource, "g", errors.New("a policy says no")), true, "a policy says no"},
		"the server fails":    {apierrors.NewInternalError(errors.New("no webhook")), true, "no webhook"},
		"somebody else wrote": {apierrors.NewConflict(resource, "g", errors.New("another version")), false, ""},
		"it has gone":         {apierrors.NewNotFound(resource, "g"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := gangGroup(2)
			pg.Spec.Priority = nil
			cl := interceptor.NewClient(newWithWatch(t, pg), interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return c.err
				},
			})
			recorder := events.NewFakeRecorder(9)
			gangs := engine.New(nil).Gangs
			r := NewResolver(cl, classes(t), gangs, recorder)
			for range 2 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); (err != nil) != c.wantAgain {
					t.Errorf("Error: %v", err)
				}
			}
			v, told := gangs.Unresolved(gang.KeyOf(groupKey)), len(recorder.Events)
			if c.want == "" {
				if told != 0 || v != (gang.Verdict{}) {
					t.Errorf("%d events, and it lacks %+v", told, v)
				}
				return
			}
			if v.Reason != v1alpha1.ReasonNotFilledIn || !strings.Contains(v.Message, c.want) {
				t.Errorf("Lacks %+v, want %q", v, c.want)
			}
			if told != 1 || !strings.Contains(<-recorder.Events, c.want) {
				t.Errorf("%d events, want one with %q", told, c.want)
			}
		})
	}
}
