package snapshot

import (
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

func TestSameToleration(t *testing.T) {
	seconds := preemptiontoleration.AnnotationTolerationSeconds
	for name, tc := range map[string]struct {
		before, after map[string]string
		nowDefault    bool
		nowValue      int32
		want          bool
	}{
		"nothing":                             {want: true},
		"another annotation":                  {after: map[string]string{"other": "1"}, want: true},
		"a value changes":                     {before: map[string]string{seconds: "1"}, after: map[string]string{seconds: "2"}},
		"a value comes":                       {after: map[string]string{seconds: "2"}},
		"a value goes":                        {before: map[string]string{seconds: "1"}},
		"an empty value comes":                {after: map[string]string{seconds: ""}},
		"an empty value goes":                 {before: map[string]string{seconds: ""}},
		"a value becomes empty":               {before: map[string]string{seconds: "1"}, after: map[string]string{seconds: ""}},
		"the class becomes the default class": {nowDefault: true},
		"the class has another value":         {nowValue: 5},
	} {
		t.Run(name, func(t *testing.T) {
			before := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Annotations: tc.before}}
			after := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Annotations: tc.after}, GlobalDefault: tc.nowDefault, Value: tc.nowValue}
			if got := SameToleration(before, after); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
