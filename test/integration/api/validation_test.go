package api

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// A validationCase makes up to four requests, in this order:
//
//   - create an object with the spec "create"
//   - set its status to "had"
//   - replace its spec by "update"
//   - set its status to "status"
//
// A request is skipped if its field is empty. All requests except the last must succeed. The last
// request must return the message "want", which omits the name of the object. If "want" is empty,
// the last request must succeed too.
type validationCase struct {
	create string
	had    string
	update string
	status string
	want   string
}

const name = "it"

// allCases returns the cases of each kind, by title.
func allCases() map[string]map[string]validationCase {
	return map[string]map[string]validationCase{
		"PodGroup":          podGroupCases(),
		"CompositePodGroup": compositeCases(),
		"Workload":          workloadCases(),
		"Queue":             queueCases(),
	}
}

// TestValidation tests each validation rule of the API with valid and with invalid objects.
func TestValidation(t *testing.T) {
	c := clientFor(t, startAPIServer(t))

	for kind, cases := range allCases() {
		t.Run(kind, func(t *testing.T) {
			for title, tc := range cases {
				t.Run(title, func(t *testing.T) {
					tc.run(t, c, kind)
				})
			}
		})
	}
}

func (tc validationCase) run(t *testing.T, c client.Client, kind string) {
	obj := object(t, kind, tc.create)
	err := c.Create(t.Context(), obj)
	if err == nil {
		// Delete the object, because all cases use the same name.
		defer func() {
			if err := c.Delete(t.Context(), obj); err != nil {
				t.Errorf("Delete: %v", err)
			}
		}()
	}
	if tc.had != "" && err == nil {
		obj.Object["status"] = fields(t, tc.had)
		err = c.Status().Update(t.Context(), obj)
	}
	if tc.update != "" {
		if err != nil {
			t.Fatalf("Before the update: %v", err)
		}
		obj.Object["spec"] = fields(t, tc.update)
		err = c.Update(t.Context(), obj)
	}
	if tc.status != "" {
		if err != nil {
			t.Fatalf("Before the status: %v", err)
		}
		obj.Object["status"] = fields(t, tc.status)
		err = c.Status().Update(t.Context(), obj)
	}

	if got := message(t, err, kind); got != tc.want && (stage.Kubernetes(t).Minor >= asWorded || alike(got) != alike(tc.want)) {
		t.Errorf("message\n got: %s\nwant: %s", got, tc.want)
	}
	if err == nil {
		canBeReadAsTyped(t, c, kind)
	}
}

// canBeReadAsTyped fails the test if a Go client cannot decode an object that the API server has
// accepted. Such an object would make the informers of its kind fail.
func canBeReadAsTyped(t *testing.T, c client.Client, kind string) {
	t.Helper()
	typed, err := c.Scheme().New(v1alpha1.SchemeGroupVersion.WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	obj, ok := typed.(client.Object)
	if !ok {
		t.Fatalf("%T is no object", typed)
	}
	key := client.ObjectKey{Name: name}
	if kind != "Queue" {
		key.Namespace = "default"
	}
	if err := c.Get(t.Context(), key, obj); err != nil {
		t.Errorf("The object passed, but cannot be read: %v", err)
	}
}

// message returns the text of an error without the prefix that all rejections of the kind have.
func message(t *testing.T, err error, kind string) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("Not a validation error: %v", err)
	}
	prefix := fmt.Sprintf("%s.%s %q is invalid: ", kind, v1alpha1.GroupName, name)
	rest, found := strings.CutPrefix(err.Error(), prefix)
	if !found {
		t.Fatalf("Unexpected error: %v", err)
	}
	return rest
}

// asWorded is a minor version of Kubernetes. The messages in the cases are the messages of this
// version.
const asWorded = 37

var (
	// formatError matches an error about the format of a value. Older API servers report only the
	// error about the bound.
	formatError = regexp.MustCompile(`(?:<nil>|status): Invalid value: "": Checked value must be of type [^,]+, `)
	// wrongValue matches the invalid value in a message. Older API servers write other text in this
	// place, such as the value's type.
	wrongValue = regexp.MustCompile(`Invalid value: "(?:[^"\\]|\\.)*": `)
)

// alike removes the parts of a message that differ between versions of Kubernetes.
func alike(message string) string {
	message = formatError.ReplaceAllString(message, "")
	message = wrongValue.ReplaceAllString(message, "Invalid value: ")
	return strings.TrimSuffix(strings.TrimPrefix(message, "["), "]")
}

// incomplete adds an error to a message: the CEL rules were not checked, because the object is
// invalid.
func incomplete(message string) string {
	return "[" + message + ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; " +
		"correct the existing errors to complete validation]"
}

func object(t *testing.T, kind, specYAML string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if specYAML != "" {
		obj.Object["spec"] = fields(t, specYAML)
	}
	obj.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	obj.SetName(name)
	if kind != "Queue" {
		obj.SetNamespace("default")
	}
	return obj
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return out
}
