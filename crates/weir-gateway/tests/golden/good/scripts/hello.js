export default () => ({ hello: "world" });
