// Command generate prints tables of Kubernetes' built-in kinds as JSON, for typed_client.py.
//
// A typed client reads an object into Go structs and writes it again: unknown fields and empty optional values get
// lost on the way, and quantities are rewritten. The tables say which, and in which releases kinds came and went.
// To renew them, in a folder whose go.mod requires k8s.io/client-go (in this repository toolchain/tools/go/kubernetes),
// with STANDINS as the path of this distribution:
//
//	go run $STANDINS/pulumi_standins/kubernetes/generate/main.go > $STANDINS/pulumi_standins/kubernetes/fields.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

type table struct {
	// Kinds maps "group/version/Kind" to the name of its type.
	Kinds map[string]string `json:"kinds"`
	// Types maps a type's name to its fields: the field's type, with a trailing "?" where an empty value is left out.
	Types map[string]map[string]string `json:"types"`
	// Lives maps a kind to the releases that brought and dropped it ("" for never), and to the kind to use instead.
	Lives map[string][3]string `json:"lives"`
}

type introduced interface{ APILifecycleIntroduced() (major, minor int) }

type removed interface{ APILifecycleRemoved() (major, minor int) }

type replaced interface {
	APILifecycleReplacement() schema.GroupVersionKind
}

func key(gvk schema.GroupVersionKind) string {
	if gvk.Group == "" {
		return gvk.Version + "/" + gvk.Kind
	}
	return gvk.Group + "/" + gvk.Version + "/" + gvk.Kind
}

func life(obj any) (life [3]string) {
	if it, ok := obj.(introduced); ok {
		major, minor := it.APILifecycleIntroduced()
		life[0] = fmt.Sprintf("%d.%d", major, minor)
	}
	if it, ok := obj.(removed); ok {
		major, minor := it.APILifecycleRemoved()
		life[1] = fmt.Sprintf("%d.%d", major, minor)
	}
	if it, ok := obj.(replaced); ok {
		life[2] = key(it.APILifecycleReplacement())
	}
	return life
}

var opaque = map[string]string{
	"resource.Quantity":    "quantity",
	"v1.Time":              "any",
	"v1.MicroTime":         "any",
	"v1.Duration":          "any",
	"v1.FieldsV1":          "any",
	"intstr.IntOrString":   "any",
	"runtime.RawExtension": "any",
}

func (t *table) name(typ reflect.Type) string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if known, ok := opaque[typ.String()]; ok {
		return known
	}
	switch typ.Kind() {
	case reflect.Struct:
		name := strings.TrimPrefix(strings.TrimPrefix(typ.PkgPath(), "k8s.io/api/"), "k8s.io/apimachinery/pkg/apis/") + "." + typ.Name()
		if _, seen := t.Types[name]; !seen {
			t.Types[name] = map[string]string{}
			t.fields(typ, t.Types[name])
		}
		return name
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "[]" + t.name(typ.Elem())
	case reflect.Map:
		return "{}" + t.name(typ.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return "number"
	}
	return "any"
}

func (t *table) fields(typ reflect.Type, into map[string]string) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "" && field.Anonymous {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			t.fields(inner, into)
			continue
		}
		if tag[0] == "" || tag[0] == "-" {
			continue
		}
		name := t.name(field.Type)
		for _, option := range tag[1:] {
			switch kind := field.Type.Kind(); {
			case option != "omitempty":
			case kind == reflect.Pointer, kind == reflect.Struct, kind == reflect.Interface:
			default:
				name += "?"
			}
		}
		into[tag[0]] = name
	}
}

func main() {
	found := table{Kinds: map[string]string{}, Types: map[string]map[string]string{}, Lives: map[string][3]string{}}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := typ.FieldByName("ObjectMeta"); !isObject || gvk.Version == "__internal" {
			continue
		}
		found.Kinds[key(gvk)] = found.name(typ)
		if known := life(reflect.New(typ).Interface()); known != [3]string{} {
			found.Lives[key(gvk)] = known
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
